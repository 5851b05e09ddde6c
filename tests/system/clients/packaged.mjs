// packaged.mjs - Posts by the package `openai`, for http.mjs.
//
// Other paths than those of the API, and bodies that are no objects, go through
// raw.mjs.  An error that the package throws becomes the reply that it came
// from; one in a stream becomes its last chunk.
import OpenAI from 'openai'
import { url } from './check.mjs'
import * as raw from './raw.mjs'
import { watchedFetch } from './watched.mjs'

const resources = {
  '/v1/chat/completions': (client) => client.chat.completions,
  '/v1/completions': (client) => client.completions,
  '/v1/responses': (client) => client.responses
}

const resourceOf = (path, base) =>
  resources[path](
    new OpenAI({
      baseURL: `${base}/v1`,
      apiKey: 'none',
      maxRetries: 0,
      fetch: watchedFetch
    })
  )

function replyOf(error) {
  if (!(error instanceof OpenAI.APIError) || error.status === undefined) {
    throw error
  }
  const { status, headers } = error
  return { status, headers, body: { error: error.error } }
}

export async function post(path, body, options = {}) {
  const { base = url, headers, signal } = options
  if (!(path in resources) || typeof body === 'string') {
    return raw.post(path, body, options)
  }
  try {
    const { data, response } = await resourceOf(path, base)
      .create(body, { headers, signal })
      .withResponse()
    return { status: response.status, headers: response.headers, body: data }
  } catch (error) {
    return replyOf(error)
  }
}

export async function open(path, body, { base = url, signal } = {}) {
  try {
    const whole = { ...body, stream: true }
    const stream = await resourceOf(path, base).create(whole, { signal })
    return { status: 200, events: events(stream) }
  } catch (error) {
    return replyOf(error)
  }
}

async function* events(stream) {
  try {
    for await (const chunk of stream) yield JSON.stringify(chunk)
  } catch (error) {
    if (error.error === undefined) throw error
    yield JSON.stringify({ error: error.error })
  }
  yield '[DONE]'
}
