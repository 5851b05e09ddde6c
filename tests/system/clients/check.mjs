// check.mjs - Named checks that are counted, and what the tests ask of sluice.
//
// Environment, set by the script `run`:
//   SLUICE_URL           a gateway over the real model, with slow steps
//   SLUICE_SCRIPTED_URL  a gateway over the scripted worker
//   SLUICE_KEYED_URL     a gateway with keys; SLUICE_API_KEY is one of them
//   SLUICE_BIN           folder of sluicectl; SLUICE_ROUTER is its router
//   SLUICE_OPENAPI       the OpenAPI document, compressed with xz
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'

export { assert, pause }
export const url = process.env.SLUICE_URL
export const scriptedUrl = process.env.SLUICE_SCRIPTED_URL
export const keyedUrl = process.env.SLUICE_KEYED_URL
export const key = process.env.SLUICE_API_KEY
export const model = 'tiny-hybrid'
const patienceMs = 1000 * Number(process.env.SLUICE_PATIENCE ?? 300)

let passed = 0
let failed = 0

/** Runs one check; a failure is printed and counted, and the next one runs. */
export async function check(name, body) {
  try {
    await body()
    passed += 1
    console.log(`ok ${name}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${name}\n${error.stack}`)
  }
}

/** Prints the counts and ends the program. */
export function finish(suite) {
  console.log(`${suite}: ${passed} passed, ${failed} failed`)
  process.exit(failed === 0 && passed > 0 ? 0 : 1)
}

/** Returns what sluicectl prints as JSON. */
export function ctl(...args) {
  return new Promise((resolve, reject) => {
    execFile(
      `${process.env.SLUICE_BIN}/sluicectl`,
      [...args, '--json'],
      (error, out) => (error ? reject(error) : resolve(JSON.parse(out)))
    )
  })
}

/** Polls until the condition holds. */
export async function until(what, condition) {
  const end = Date.now() + patienceMs
  while (!(await condition())) {
    assert(Date.now() < end, `${what}: not within ${patienceMs} ms`)
    await pause(20)
  }
}

export async function sequences() {
  return (await ctl('sequences')).sequences
}

/** Waits until no sequence is left and all memory of the workers is free. */
export async function nothingIsHeld() {
  await until('no sequence', async () => (await sequences()).length === 0)
  await until('no memory held', async () => {
    const { workers } = await ctl('workers')
    return workers.every(({ ledger }) =>
      ['blocks', 'slots'].every(
        (kind) => ledger[kind].held === 0 && ledger[kind].granted === 0
      )
    )
  })
}

/** A message that makes the scripted worker answer with this text. */
export const asks = (text) => `[[reply:${text}:reply]]`
