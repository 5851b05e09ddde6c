// render.mjs FILE|FOLDER... - Prints Kubernetes objects as JSON, after a check of
// each by the schemas: an unknown field is an error.
//
// FILE holds YAML documents; `-` is standard input.  FOLDER has a
// kustomization.yaml, of which this reads what deploy/kubernetes uses:
// resources, images, replicas, nameSuffix, and patches by `path`, which are
// strategic merges.  Any other field is an error.
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import Ajv from "ajv";
import { parseAllDocuments } from "yaml";

const here = path.dirname(fileURLToPath(import.meta.url));
const schemas = path.join(process.env.SLUICE_SCHEMAS ?? here, "kubernetes.json");

function fail(text) {
  console.error(`render: ${text}`);
  process.exit(1);
}

// kubectl reads YAML 1.1, where 0440 is octal and `on` a boolean.
function documents(file) {
  const text = readFileSync(file === "-" ? 0 : file, "utf8");

  return parseAllDocuments(text, { version: "1.1" }).map((one) => {
    for (const e of [...one.errors, ...one.warnings]) {
      fail(`${file}: ${e.message}`);
    }
    return one.toJS();
  }).filter((one) => one !== null);
}

const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true });
ajv.addSchema(JSON.parse(readFileSync(schemas, "utf8")), "kubernetes");
const kinds = ajv.getSchema("kubernetes").schema.definitions.Kinds.properties;

const show = (o) => `${o.kind} ${o.metadata?.name}`;

function check(object, file) {
  const kind = kinds[`${object?.apiVersion}/${object?.kind}`];

  if (kind === undefined) {
    fail(`${file}: no schema of ${object?.apiVersion}/${object?.kind}; ` +
      "add the kind to tests/system/manifests/schemas/kinds.ts");
  }
  const validate = ajv.getSchema(`kubernetes${kind.$ref}`);
  if (!validate(object)) {
    fail(`${file}: ${show(object)}: ` + validate.errors.map((e) =>
      `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`)
      .join("\n  "));
  }
}

// Lists of objects with names are merged by their names, as kustomize does;
// others are replaced, and null removes.
function merge(to, from) {
  if (Array.isArray(to) && Array.isArray(from) && from.length > 0 &&
      from.every((x) => x?.name !== undefined)) {
    const result = [...to];

    for (const one of from) {
      const i = result.findIndex((x) => x.name === one.name);

      if (i < 0) result.push(one);
      else result[i] = merge(result[i], one);
    }
    return result;
  }
  if (to === null || from === null || typeof to !== "object" ||
      typeof from !== "object" || Array.isArray(to) || Array.isArray(from)) {
    return from;
  }
  const result = { ...to };
  for (const [key, value] of Object.entries(from)) {
    if (value === null) delete result[key];
    else result[key] = key in to ? merge(to[key], value) : value;
  }
  return result;
}

const same = (a, b) => a.kind === b.kind && a.apiVersion === b.apiVersion &&
  a.metadata.name === b.metadata.name &&
  a.metadata.namespace === b.metadata.namespace;

function patch(objects, folder, { path: file, ...rest }) {
  if (Object.keys(rest).length > 0 || file === undefined) {
    fail(`${folder}: patches: only \`path\` is read here`);
  }
  for (const one of documents(path.join(folder, file))) {
    const i = objects.findIndex((o) => same(o, one));

    if (i < 0) fail(`${folder}/${file}: patches no object: ${show(one)}`);
    objects[i] = merge(objects[i], one);
  }
}

const containers = (o) => o.spec?.template?.spec?.containers ?? [];

// kustomize skips a name without an object, which is a mistake here.
function setImage(objects, folder, { name, newName, newTag, ...rest }) {
  const used = objects.flatMap(containers)
    .filter((c) => c.image.replace(/:[^:/]*$/, "") === name);

  if (Object.keys(rest).length > 0) fail(`${folder}: images: unknown field`);
  if (used.length === 0) fail(`${folder}: images: ${name} is used nowhere`);
  for (const c of used) c.image = `${newName ?? name}:${newTag}`;
}

function setReplicas(objects, folder, { name, count }) {
  const used = objects.filter((o) => o.metadata.name === name &&
    o.spec?.replicas !== undefined);

  if (used.length !== 1) fail(`${folder}: replicas: no single ${name}`);
  used[0].spec.replicas = count;
}

function kustomize(folder) {
  const [k, more] = documents(path.join(folder, "kustomization.yaml"));
  const { apiVersion, kind, resources, images = [], replicas = [],
    patches = [], ...rest } = k;

  if (more !== undefined || Object.keys(rest).length > 0 ||
      apiVersion !== "kustomize.config.k8s.io/v1beta1" ||
      kind !== "Kustomization") {
    fail(`${folder}/kustomization.yaml: unknown: ${JSON.stringify(rest)}`);
  }
  const objects = resources.flatMap((r) => read(path.join(folder, r)));
  for (const [i, o] of objects.entries()) {
    if (objects.findIndex((x) => same(x, o)) !== i) {
      fail(`${folder}: ${show(o)} is there twice`);
    }
  }
  for (const p of patches) patch(objects, folder, p);
  for (const i of images) setImage(objects, folder, i);
  for (const r of replicas) setReplicas(objects, folder, r);
  for (const o of objects) check(o, folder);
  return objects;
}

function read(at) {
  if (at !== "-" && statSync(at).isDirectory()) return kustomize(at);
  const objects = documents(at);
  for (const o of objects) check(o, at);
  return objects;
}

console.log(JSON.stringify(process.argv.slice(2).flatMap(read), null, 1));
