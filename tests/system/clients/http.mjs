// http.mjs - Requests whose bodies and chunks are validated.
//
// They go through the package `openai` if the program's argument is its name,
// otherwise through fetch alone.
import { assert, model, url } from './check.mjs'
import { validateBody, validateChunk } from './schemas.mjs'

export const packaged = process.argv[2] === 'openai'
const transport = await import(packaged ? './packaged.mjs' : './raw.mjs')

const paths = {
  chat: '/v1/chat/completions',
  text: '/v1/completions',
  responses: '/v1/responses'
}

export async function get(path, base = url, headers = {}) {
  const reply = await fetch(base + path, { headers })
  const type = reply.headers.get('content-type') ?? ''
  const body = type.includes('json') ? await reply.json() : await reply.text()
  if (type.includes('json')) validateBody(path, reply.status, body)
  return { status: reply.status, headers: reply.headers, body }
}

/** Posts a body: an object, or text that is sent as it is. */
export async function post(path, body, options) {
  const reply = await transport.post(path, body, options)
  validateBody(path, reply.status, reply.body)
  return reply
}

/** Opens a stream and returns its events, with nothing read. */
export async function open(path, body, options) {
  const { status, events } = await transport.open(path, body, options)
  assert.equal(status, 200)
  return events
}

/** Streams to the end.  Returns status and chunks; the last event is [DONE]. */
export async function stream(path, body, options) {
  const {
    status,
    body: error,
    events
  } = await transport.open(path, body, options)
  if (status !== 200) {
    validateBody(path, status, error)
    return { status, body: error }
  }
  const all = await Array.fromAsync(events)
  if (path !== paths.responses) assert.equal(all.pop(), '[DONE]')
  const chunks = all.map((data) => JSON.parse(data))
  chunks.forEach((chunk) => validateChunk(path, chunk))
  return { status, chunks }
}

/** Joins the chunks of a chat stream to the choices of the whole answer. */
export function joinChat(chunks) {
  const choices = []
  for (const {
    delta,
    index,
    finish_reason: finish,
    logprobs
  } of chunks.flatMap((chunk) => chunk.choices)) {
    choices[index] ??= {
      content: '',
      reasoning: '',
      calls: [],
      finish: null,
      logprobs: []
    }
    const choice = choices[index]
    assert.equal(choice.finish, null, 'nothing follows a finish_reason')
    choice.content += delta.content ?? ''
    choice.reasoning += delta.reasoning_content ?? ''
    for (const call of delta.tool_calls ?? []) joinCall(choice.calls, call)
    choice.logprobs.push(...(logprobs?.content ?? []))
    choice.finish = finish
  }
  return choices
}

// OpenAI's rules: id, type and name once, in the first delta of a call.
function joinCall(calls, { index, id, type, function: f }) {
  if (calls[index] === undefined) {
    assert.equal(index, calls.length, 'calls begin in order')
    assert.equal(type, 'function')
    assert(id && f.name, 'the first delta has id and name')
    calls.push({ id, name: f.name, arguments: f.arguments ?? '' })
  } else {
    assert(
      id === undefined && f.name === undefined && type === undefined,
      'id, type and name come once'
    )
    calls[index].arguments += f.arguments
  }
}

export const joinText = (chunks, index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.text)
    .join('')

const user = (content) => [{ role: 'user', content }]

export const chatBody = (content, more = {}) => ({
  model,
  messages: user(content),
  temperature: 0,
  max_tokens: 12,
  ...more
})
export const textBody = (prompt, more = {}) => ({
  model,
  prompt,
  temperature: 0,
  max_tokens: 12,
  ...more
})

export const chat = (content, more, base) =>
  post(paths.chat, chatBody(content, more), { base })
export const chatStream = (content, more, base) =>
  stream(paths.chat, chatBody(content, more), { base })
export const complete = (prompt, more, base) =>
  post(paths.text, textBody(prompt, more), { base })
export const completeStream = (prompt, more, base) =>
  stream(paths.text, textBody(prompt, more), { base })
/** Fails unless the reply is an error of this status that names the field. */
export function refused({ status, body }, wanted, param) {
  assert.equal(status, wanted, JSON.stringify(body))
  assert.equal(typeof body.error.message, 'string')
  if (param !== undefined) {
    assert.match(
      String(body.error.param),
      new RegExp(`^${param}`),
      JSON.stringify(body)
    )
  }
}
