// schemas.mjs - Validates bodies and chunks against OpenAI's OpenAPI document.
//
// The document is followed to the letter but for what its own API does not do:
//   - `nullable: true` (of OpenAPI 3.0) is read as "or null";
//   - a chunk of a text completion has the shape of the whole answer, where
//     finish_reason and usage are null before the end;
//   - token_logprobs and top_logprobs begin with null under `echo`.
import { execFileSync } from 'node:child_process'
import Ajv2020 from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { parse } from 'yaml'
import { assert } from './check.mjs'

const text = execFileSync('xz', ['-dc', process.env.SLUICE_OPENAPI], {
  maxBuffer: 1 << 27,
  encoding: 'utf8'
})
const nothing = { type: 'null' }

function readNullable(value) {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(readNullable)
  const { nullable, ...rest } = value
  const read = Object.fromEntries(
    Object.entries(rest).map(([k, v]) => [k, readNullable(v)])
  )
  if (nullable !== true)
    return nullable === undefined
      ? read
      : { ...read, nullable: readNullable(nullable) }
  return { anyOf: [read, nothing] }
}

function amendCompletions(schemas) {
  const answer = schemas.CreateCompletionResponse
  const choice = answer.properties.choices.items.properties
  const logprobs = choice.logprobs.anyOf[0].properties
  for (const list of [logprobs.token_logprobs, logprobs.top_logprobs]) {
    list.items = { anyOf: [list.items, nothing] }
  }
  const chunk = structuredClone(answer)
  const part = chunk.properties.choices.items.properties
  part.finish_reason = { anyOf: [part.finish_reason, nothing] }
  chunk.properties.usage = { anyOf: [chunk.properties.usage, nothing] }
  schemas.CreateCompletionStreamResponse = chunk
}

const { components } = readNullable(parse(text))
amendCompletions(components.schemas)
const ajv = new Ajv2020({ strict: false, allErrors: true })
addFormats(ajv)
ajv.addFormat('unixtime', { type: 'number', validate: Number.isInteger })
ajv.addSchema({ $id: 'openai', components })
const validators = new Map()
let validated = 0

/** Fails unless the value has the shape of this schema of the document. */
export function validate(schema, value) {
  if (!validators.has(schema)) {
    validators.set(
      schema,
      ajv.compile({ $ref: `openai#/components/schemas/${schema}` })
    )
  }
  const valid = validators.get(schema)
  assert(
    valid(value),
    `not a ${schema}: ${JSON.stringify(value)}\n` +
      ajv.errorsText(valid.errors?.slice(0, 8), { separator: '\n' })
  )
  validated += 1
}

/** Returns how many values have been validated. */
export const countValidated = () => validated

const whole = {
  '/v1/chat/completions': 'CreateChatCompletionResponse',
  '/v1/completions': 'CreateCompletionResponse',
  '/v1/responses': 'Response',
  '/v1/models': 'ListModelsResponse'
}
const chunks = {
  '/v1/chat/completions': 'CreateChatCompletionStreamResponse',
  '/v1/completions': 'CreateCompletionStreamResponse',
  '/v1/responses': 'ResponseStreamEvent'
}

export function validateBody(path, status, body) {
  if (status >= 400) validate('ErrorResponse', body)
  else if (path in whole) validate(whole[path], body)
  else if (path.startsWith('/v1/models/')) validate('Model', body)
}

export function validateChunk(path, chunk) {
  validate(
    'error' in chunk && !('type' in chunk && path === '/v1/responses')
      ? 'ErrorResponse'
      : chunks[path],
    chunk
  )
}
