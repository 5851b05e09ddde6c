// anthropic.mjs - The package @anthropic-ai/sdk.
import Anthropic from '@anthropic-ai/sdk'
import { asks, assert, check, finish } from './check.mjs'
import { key, keyedUrl, model, nothingIsHeld } from './check.mjs'
import { scriptedUrl, url } from './check.mjs'
import { callsOne, callsTwo, cities, weather } from './tools.mjs'

const clientOf = (baseURL, apiKey = 'none') =>
  new Anthropic({ baseURL, apiKey, maxRetries: 0 })
const real = clientOf(url)
const scripted = clientOf(scriptedUrl)
const story = 'Once upon a time there was a little fox.'
const user = (content) => ({ role: 'user', content })
const short = { model, max_tokens: 16, temperature: 0 }
const long = { model, max_tokens: 200, temperature: 0 }
const tool = {
  name: weather.function.name,
  description: weather.function.description,
  input_schema: weather.function.parameters
}
const textOf = (message) =>
  message.content.map((block) => block.text ?? '').join('')

/** Checks the events of a stream against the grammar of the API. */
function inOrder(types) {
  const line = types.filter((type) => type !== 'ping').join(' ')
  assert.match(
    line,
    /^message_start( content_block_start( content_block_delta)* content_block_stop)* message_delta message_stop$/
  )
}

await check('a message has text, a reason and usage', async () => {
  const message = await real.messages.create({
    ...short,
    messages: [user(story)]
  })
  assert.match(message.id, /^msg_/)
  assert.equal(message.type, 'message')
  assert.equal(message.model, model)
  assert(textOf(message).length > 0)
  assert(['end_turn', 'max_tokens'].includes(message.stop_reason))
  assert(message.usage.output_tokens > 0)
  assert(message._request_id.length > 0)
})

await check('a stream has the same text, in the order of events', async () => {
  const ask = { ...short, messages: [user(story)] }
  const whole = await real.messages.create(ask)
  const stream = await real.messages.create({ ...ask, stream: true })
  const events = await Array.fromAsync(stream)
  inOrder(events.map((event) => event.type))
  const text = events
    .filter((event) => event.type === 'content_block_delta')
    .map((event) => event.delta.text)
    .join('')
  assert.equal(text, textOf(whole))
})

await check('the helper for streams joins a message', async () => {
  const ask = { ...short, messages: [user(story)] }
  const whole = await real.messages.create(ask)
  let heard = ''
  const joined = await real.messages
    .stream(ask)
    .on('text', (piece) => (heard += piece))
    .finalMessage()
  assert.equal(heard, textOf(whole))
  assert.deepEqual(joined.content, whole.content)
  assert.equal(joined.usage.output_tokens, whole.usage.output_tokens)
})

await check('count_tokens counts as usage does', async () => {
  const ask = { model, system: 'Be kind.', messages: [user(story)] }
  const { input_tokens: counted } = await real.messages.countTokens(ask)
  const { usage } = await real.messages.create({ ...ask, max_tokens: 1 })
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, counted)
})

await check('a marked prompt is read from the cache again', async () => {
  const system = [
    {
      type: 'text',
      text: 'The river is long. '.repeat(100),
      cache_control: { type: 'ephemeral' }
    }
  ]
  const ask = { ...short, system, messages: [user(story)] }
  const first = (await real.messages.create(ask)).usage
  const second = (await real.messages.create(ask)).usage
  const sum = (usage) =>
    usage.input_tokens +
    usage.cache_creation_input_tokens +
    usage.cache_read_input_tokens
  assert(first.cache_creation_input_tokens > 0)
  assert(second.cache_read_input_tokens > 0)
  assert.equal(sum(first), sum(second))
})

await check('stop_sequences name the one that ended it', async () => {
  const message = await scripted.messages.create({
    ...long,
    messages: [user(asks('One, two, STOP, three.'))],
    stop_sequences: ['HALT', 'STOP']
  })
  assert.equal(textOf(message), 'One, two, ')
  assert.equal(message.stop_reason, 'stop_sequence')
  assert.equal(message.stop_sequence, 'STOP')
})

await check('thinking is a block of its own, and goes back in', async () => {
  const ask = {
    ...long,
    thinking: { type: 'enabled', budget_tokens: 1024 },
    messages: [user(asks('<think>\nTwo and two.\n</think>\n\nFour.'))]
  }
  for (const message of [
    await scripted.messages.create(ask),
    await scripted.messages.stream(ask).finalMessage()
  ]) {
    const [thinking, text] = message.content
    assert.equal(thinking.type, 'thinking')
    assert.equal(thinking.thinking.trim(), 'Two and two.')
    assert(thinking.signature.length > 0)
    assert.equal(text.text, 'Four.')
    const again = await scripted.messages.create({
      ...ask,
      messages: [
        ...ask.messages,
        { role: 'assistant', content: message.content },
        user(asks('Good.'))
      ]
    })
    assert.equal(textOf(again), 'Good.')
  }
})

for (const name of ['create', 'stream']) {
  await check(`${name}: a tool loop of two turns`, async () => {
    const run = (messages) => {
      const ask = { ...long, messages, tools: [tool] }
      return name === 'create'
        ? scripted.messages.create(ask)
        : scripted.messages.stream(ask).finalMessage()
    }
    const messages = [user(callsOne)]
    const first = await run(messages)
    assert.equal(first.stop_reason, 'tool_use')
    const [use] = first.content
    assert.equal(use.name, 'get_weather')
    assert.deepEqual(use.input, { city: 'Oslo' })
    const result = {
      type: 'tool_result',
      tool_use_id: use.id,
      content: [{ type: 'text', text: asks('It rains.') }]
    }
    const second = await run([
      ...messages,
      { role: 'assistant', content: first.content },
      user([result])
    ])
    assert.equal(textOf(second), 'It rains.')
    assert.equal(second.stop_reason, 'end_turn')
  })
}

await check('two calls are two blocks behind a text', async () => {
  const stream = scripted.messages.stream({
    ...long,
    messages: [user(callsTwo)],
    tools: [tool]
  })
  const types = []
  stream.on('streamEvent', (event) => types.push(event.type))
  const { content } = await stream.finalMessage()
  inOrder(types)
  assert.equal(content[0].type, 'text')
  assert.deepEqual(
    content.slice(1).map((block) => block.input.city),
    cities
  )
})

await check('the runner of tools answers with their results', async () => {
  const asked = []
  const message = await scripted.beta.messages.toolRunner({
    ...long,
    messages: [user(callsOne)],
    tools: [
      {
        ...tool,
        parse: (input) => input,
        run: ({ city }) => {
          asked.push(city)
          return asks('It rains.')
        }
      }
    ]
  })
  assert.deepEqual(asked, ['Oslo'])
  assert.equal(textOf(message), 'It rains.')
})

await check('a tool of the server is left out and named', async () => {
  const { data, response } = await scripted.messages
    .create({
      ...long,
      messages: [user(asks('No.'))],
      tools: [{ type: 'web_search_20250305', name: 'web_search' }],
      metadata: { user_id: 'u' }
    })
    .withResponse()
  assert.equal(textOf(data), 'No.')
  assert.equal(
    response.headers.get('x-sluice-ignored'),
    'tools.web_search_20250305'
  )
})

await check('errors have their class, and x-api-key is the key', async () => {
  const ask = { ...short, messages: [user(story)] }
  const bad = { ...ask, temperature: -1 }
  await assert.rejects(
    clientOf(keyedUrl, 'sk-wrong').messages.create(ask),
    Anthropic.AuthenticationError
  )
  await assert.rejects(real.messages.create(bad), (error) => {
    assert(error instanceof Anthropic.BadRequestError)
    assert.equal(error.type, 'invalid_request_error')
    return /temperature/.test(error.message)
  })
  await assert.rejects(
    real.messages.create({ ...ask, model: 'none' }),
    Anthropic.NotFoundError
  )
  const message = await clientOf(keyedUrl, key).messages.create(ask)
  assert(textOf(message).length > 0)
})

await check('an abort frees the slot', async () => {
  const stream = real.messages.stream({
    ...short,
    max_tokens: 3000,
    messages: [user(story)]
  })
  stream.on('text', () => stream.abort())
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError)
  await nothingIsHeld()
})

finish('anthropic')
