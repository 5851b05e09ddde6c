// raw.mjs - Posts by fetch alone, for http.mjs.
import { assert, url } from './check.mjs'

const request = (body, headers, signal) => ({
  method: 'POST',
  signal,
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body)
})

/** Posts a body: an object, or text that is sent as it is. */
export async function post(path, body, { base = url, headers, signal } = {}) {
  const reply = await fetch(base + path, request(body, headers, signal))
  const answer = await reply.json()
  return { status: reply.status, headers: reply.headers, body: answer }
}

/** Opens a stream.  Returns its events, or the body of a refusal. */
export async function open(path, body, { base = url, signal } = {}) {
  const whole = { ...body, stream: true }
  const reply = await fetch(base + path, request(whole, {}, signal))
  if (reply.status !== 200) {
    return { status: reply.status, body: await reply.json() }
  }
  assert.match(reply.headers.get('content-type'), /^text\/event-stream/)
  return { status: 200, events: events(reply) }
}

/** Yields the data of each event, as text, after checking its form. */
async function* events(reply) {
  let held = ''
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const bytes of reply.body) {
    held += decoder.decode(bytes, { stream: true })
    const parts = held.split('\n\n')
    held = parts.pop()
    for (const part of parts) {
      const lines = part.split('\n').filter((line) => !line.startsWith(':'))
      if (lines.length === 0) continue
      const data = lines.filter((line) => line.startsWith('data: '))
      assert.equal(data.length, 1, `one data line in ${JSON.stringify(part)}`)
      assert(
        lines.every((line) => /^(data|event): /.test(line)),
        part
      )
      yield data[0].slice('data: '.length)
    }
  }
  assert.equal(held, '', 'the stream ends with a whole event')
}
