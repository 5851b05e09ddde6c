// watched.mjs - A fetch that validates what a client package receives.
import { assert } from './check.mjs'
import { countValidated, validateBody, validateChunk } from './schemas.mjs'

const pending = []

async function validateCopy(path, copy) {
  const type = copy.headers.get('content-type') ?? ''
  const text = await copy.text().catch(() => null) // the client closed it
  if (text === null) return
  if (!type.startsWith('text/event-stream')) {
    validateBody(path, copy.status, JSON.parse(text))
    return
  }
  for (const line of text.split('\n')) {
    if (line.startsWith('data: ') && line !== 'data: [DONE]') {
      validateChunk(path, JSON.parse(line.slice('data: '.length)))
    }
  }
}

export async function watchedFetch(target, options) {
  const reply = await fetch(target, options)
  const { pathname } = new URL(target.url ?? target)
  pending.push(validateCopy(pathname, reply.clone()).catch((error) => error))
  return reply
}

/** Waits for all copies, and fails if one of them was not valid. */
export async function allWereValid() {
  const errors = (await Promise.all(pending)).filter((error) => error)
  assert.equal(errors.length, 0, errors.map(String).join('\n'))
  assert(countValidated() > 0)
  console.log(`${countValidated()} bodies and chunks validated`)
}
