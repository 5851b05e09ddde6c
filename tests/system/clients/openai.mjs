// openai.mjs - What the package `openai` adds to forty.mjs: its helpers, classes
// of errors, tools and responses.
import OpenAI from 'openai'
import {
  asks,
  assert,
  check,
  ctl,
  finish,
  key,
  keyedUrl,
  model,
  nothingIsHeld,
  scriptedUrl,
  sequences,
  until,
  url
} from './check.mjs'
import { callsOne, callsTwo, cities, weather } from './tools.mjs'
import { allWereValid, watchedFetch } from './watched.mjs'

const clientOf = (base, apiKey = 'none', more = {}) =>
  new OpenAI({
    baseURL: `${base}/v1`,
    apiKey,
    maxRetries: 0,
    fetch: watchedFetch,
    ...more
  })
const client = clientOf(url)
const scripted = clientOf(scriptedUrl)
const story = 'Once upon a time there was a little fox.'
const user = (content) => [{ role: 'user', content }]
const ask = (more = {}, on = client) =>
  on.chat.completions.create({
    model,
    messages: user(story),
    temperature: 0,
    max_tokens: 16,
    ...more
  })
const complete = (more = {}) =>
  client.completions.create({
    model,
    prompt: story,
    temperature: 0,
    max_tokens: 16,
    ...more
  })
const respond = (input, more = {}, on = client) =>
  on.responses.create({
    model,
    input,
    temperature: 0,
    max_output_tokens: 16,
    ...more
  })
const join = async (stream) => {
  const chunks = await Array.fromAsync(stream)
  const choices = chunks.flatMap((chunk) => chunk.choices)
  return {
    chunks,
    text: choices.map((c) => c.delta?.content ?? c.text ?? '').join('')
  }
}
const refused = (promise, kind, param) =>
  assert.rejects(promise, (error) => {
    assert(error instanceof kind, `${error.constructor.name}: ${error.message}`)
    if (param)
      assert.match(String(error.param), new RegExp(`^${param}`), error.message)
    return true
  })

await check('chat: text, role, finish_reason and usage', async () => {
  const { choices, usage } = await ask()
  assert.equal(choices[0].message.role, 'assistant')
  assert.equal(typeof choices[0].message.content, 'string')
  assert.equal(choices[0].logprobs, null)
  assert.equal(
    usage.total_tokens,
    usage.prompt_tokens + usage.completion_tokens
  )
  assert(Number.isInteger(usage.prompt_tokens_details.cached_tokens))
})

await check('chat: the stream equals the whole answer', async () => {
  const whole = await ask()
  const { chunks, text } = await join(
    await ask({ stream: true, stream_options: { include_usage: true } })
  )
  assert.equal(text, whole.choices[0].message.content)
  assert.deepEqual(chunks.at(-1).usage, whole.usage)
  assert.deepEqual(chunks.at(-1).choices, [])
})

await check('chat: the helper `stream` builds the same message', async () => {
  const whole = await ask()
  const runner = client.chat.completions.stream({
    model,
    messages: user(story),
    temperature: 0,
    max_tokens: 16
  })
  assert.equal(await runner.finalContent(), whole.choices[0].message.content)
})

await check('chat: logprobs', async () => {
  const { choices } = await ask({ logprobs: true, top_logprobs: 5 })
  choices[0].logprobs.content.forEach((token) =>
    assert.equal(token.top_logprobs.length, 5)
  )
  const none = await ask({ logprobs: true, top_logprobs: 0 })
  none.choices[0].logprobs.content.forEach((token) =>
    assert.deepEqual(token.top_logprobs, [])
  )
  await refused(
    ask({ logprobs: true, top_logprobs: 21 }),
    OpenAI.BadRequestError,
    'top_logprobs'
  )
  await refused(
    ask({ logprobs: true, top_logprobs: 21, stream: true }),
    OpenAI.BadRequestError,
    'top_logprobs'
  )
})

await check('chat: n, seed, stop, max_completion_tokens', async () => {
  const same = { n: 2, seed: 3, temperature: 1 }
  const [one, two] = [await ask(same), await ask(same)]
  assert.deepEqual(one.choices, two.choices)
  assert.deepEqual(
    one.choices.map((choice) => choice.index),
    [0, 1]
  )
  const short = await ask({ max_tokens: undefined, max_completion_tokens: 3 })
  assert.equal(short.choices[0].finish_reason, 'length')
  const whole = (await complete()).choices[0].text
  const stop = whole.slice(4, 8)
  const cut = await complete({ stop: [stop] })
  assert.equal(cut.choices[0].text, whole.slice(0, whole.indexOf(stop)))
  assert.equal(cut.choices[0].finish_reason, 'stop')
})

await check(
  'chat: parts of text, a developer, null where it is allowed',
  async () => {
    const parts = await ask({
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be kind.' }] },
        { role: 'user', content: [{ type: 'text', text: story }] }
      ]
    })
    const plain = await ask({
      messages: [
        { role: 'developer', content: 'Be kind.' },
        { role: 'user', content: story }
      ]
    })
    assert.equal(
      parts.choices[0].message.content,
      plain.choices[0].message.content
    )
    const nulls = {
      stop: null,
      seed: null,
      logit_bias: null,
      tool_choice: null,
      tools: null,
      response_format: null,
      stream: null,
      temperature: null,
      top_p: null,
      n: null
    }
    assert.equal((await ask(nulls)).choices.length, 1)
  }
)

await check(
  'chat: fields out of range are BadRequestError with their name',
  async () => {
    for (const [param, value] of Object.entries({
      temperature: -1,
      top_p: 1.5,
      n: 0,
      presence_penalty: 3,
      frequency_penalty: -3,
      max_tokens: -1,
      logit_bias: { 5: 101 },
      stop: Array(17).fill('x'),
      messages: [],
      seed: 1.5,
      min_p: 2,
      stream_options: { include_usage: true },
      tools: [{}],
      response_format: { type: 'json_schema' }
    })) {
      await refused(ask({ [param]: value }), OpenAI.BadRequestError, param)
    }
  }
)

await check('chat: a schema is refused by name', async () => {
  const schema = {
    type: 'json_schema',
    json_schema: { name: 'x', schema: { type: 'object' } }
  }
  await refused(
    ask({ response_format: schema }),
    OpenAI.BadRequestError,
    'response_format'
  )
})

await check('errors: classes, codes and parameters', async () => {
  await refused(ask({ model: 'none' }), OpenAI.NotFoundError, 'model')
  await refused(
    ask({}, clientOf(keyedUrl, 'sk-wrong')),
    OpenAI.AuthenticationError
  )
  await refused(
    ask({ messages: user('word '.repeat(6000)) }),
    OpenAI.BadRequestError
  )
  await refused(client.models.retrieve('none'), OpenAI.NotFoundError)
  assert.equal((await ask({}, clientOf(keyedUrl, key))).choices.length, 1)
})

await check('chat: abort frees the slot', async () => {
  const long = { stream: true, max_tokens: 3000, ignore_eos: true }
  const stream = await ask(long)
  for await (const chunk of stream) {
    assert(chunk.choices)
    if ((await sequences()).length === 1) break // closes the stream
  }
  await nothingIsHeld()
  const other = await ask(long)
  setTimeout(() => other.controller.abort(), 300)
  await Array.fromAsync(other).catch(() => {})
  await nothingIsHeld()
})

await check('chat: an error in a stream is an APIError', async () => {
  const stream = await ask({ stream: true, max_tokens: 3000, ignore_eos: true })
  await assert.rejects(
    async () => {
      let cancelled = false
      for await (const chunk of stream) {
        assert(chunk.choices)
        if (!cancelled) {
          const [one] = await sequences()
          cancelled = true
          await ctl('cancel', one.sequence.request_id)
        }
      }
    },
    (error) => error instanceof OpenAI.APIError
  )
  await nothingIsHeld()
})

await check('chat: continue_final_message', async () => {
  const { choices } = await ask({
    messages: [
      ...user('Tell a story.'),
      { role: 'assistant', content: 'Once upon a time' }
    ],
    continue_final_message: true,
    add_generation_prompt: false
  })
  assert.equal(typeof choices[0].message.content, 'string')
})

await check('reasoning is apart from content', async () => {
  const messages = user(asks('<think>\nTwo and two.\n</think>\n\nFour.'))
  const { choices } = await ask({ messages, max_tokens: 60 }, scripted)
  assert.equal(choices[0].message.content.trim(), 'Four.')
  assert.equal(choices[0].message.reasoning_content.trim(), 'Two and two.')
})

await check('tools: a call, its result, and the answer', async () => {
  const messages = user(callsOne)
  const first = await ask(
    { messages, tools: [weather], max_tokens: 100 },
    scripted
  )
  const { message, finish_reason: reason } = first.choices[0]
  assert.equal(reason, 'tool_calls')
  assert.equal(message.content, null)
  assert.equal(message.tool_calls.length, 1)
  const [call] = message.tool_calls
  assert.equal(call.function.name, 'get_weather')
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' })
  messages.push(message, {
    role: 'tool',
    tool_call_id: call.id,
    content: asks('It rains.')
  })
  const last = await ask(
    { messages, tools: [weather], max_tokens: 60 },
    scripted
  )
  assert.equal(last.choices[0].message.content, 'It rains.')
  assert.equal(last.choices[0].finish_reason, 'stop')
})

await check('tools: two calls, streamed and whole, are the same', async () => {
  const more = { messages: user(callsTwo), tools: [weather], max_tokens: 200 }
  const whole = (await ask(more, scripted)).choices[0]
  const runner = scripted.chat.completions.stream({
    model,
    temperature: 0,
    ...more
  })
  const joined = (await runner.finalChatCompletion()).choices[0]
  assert.equal(whole.message.tool_calls.length, 2)
  assert.equal(joined.finish_reason, 'tool_calls')
  assert.equal(joined.message.content, whole.message.content)
  const plain = (calls) =>
    calls.map(({ type, function: f }) => [type, f.name, f.arguments])
  assert.deepEqual(
    plain(joined.message.tool_calls),
    plain(whole.message.tool_calls)
  )
  assert.deepEqual(
    whole.message.tool_calls.map(
      (call) => JSON.parse(call.function.arguments).city
    ),
    cities
  )
  assert.equal(new Set(whole.message.tool_calls.map((call) => call.id)).size, 2)
})

await check('tools: the helper runTools calls the function', async () => {
  const asked = []
  const runner = scripted.chat.completions.runTools({
    model,
    max_tokens: 100,
    messages: user(callsOne),
    tools: [
      {
        ...weather,
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: ({ city }) => {
            asked.push(city)
            return asks('Rain.')
          }
        }
      }
    ]
  })
  assert.equal(await runner.finalContent(), 'Rain.')
  assert.deepEqual(asked, ['Oslo'])
})

await check('tools: without tools the text of a call is content', async () => {
  const { choices } = await ask(
    { messages: user(callsOne), max_tokens: 100 },
    scripted
  )
  assert.match(choices[0].message.content, /get_weather/)
  assert.equal(choices[0].finish_reason, 'stop')
})

await check('completions: whole, streamed, echo, ids, lists', async () => {
  const whole = await complete()
  const { text } = await join(await complete({ stream: true }))
  assert.equal(text, whole.choices[0].text)
  assert.equal((await complete({ echo: true })).choices[0].text, story + text)
  const lists = await complete({ prompt: [story, story] })
  assert.deepEqual(
    lists.choices.map((choice) => choice.text),
    [text, text]
  )
  const logprobs = (await complete({ logprobs: 2 })).choices[0].logprobs
  assert.equal(logprobs.tokens.join(''), text)
  await refused(complete({ logprobs: 21 }), OpenAI.BadRequestError, 'logprobs')
  await refused(complete({ prompt: [] }), OpenAI.BadRequestError, 'prompt')
})

await check('models: list and retrieve', async () => {
  const list = await Array.fromAsync(client.models.list())
  assert(list.some((one) => one.id === model))
  assert.equal((await client.models.retrieve(model)).id, model)
})

await check('responses: text, instructions and usage', async () => {
  const reply = await respond(story, {
    instructions: 'Be kind.',
    max_output_tokens: 300
  })
  assert(['completed', 'incomplete'].includes(reply.status))
  assert(reply.output_text.length > 0)
  assert.equal(
    reply.usage.total_tokens,
    reply.usage.input_tokens + reply.usage.output_tokens
  )
  const cut = await respond(story, {
    max_output_tokens: 16,
    ignore_eos: undefined
  })
  if (cut.status === 'incomplete') {
    assert.equal(cut.incomplete_details.reason, 'max_output_tokens')
  }
})

await check('responses: the stream equals the whole answer', async () => {
  const whole = await respond(story)
  const all = await Array.fromAsync(await respond(story, { stream: true }))
  assert.equal(all[0].type, 'response.created')
  all.forEach((event, i) => assert.equal(event.sequence_number, i))
  const text = all
    .filter((event) => event.type === 'response.output_text.delta')
    .map((event) => event.delta)
    .join('')
  assert.equal(text, whole.output_text)
  assert.match(all.at(-1).type, /^response\.(completed|incomplete)$/)
  assert.equal(all.at(-1).response.output[0].content[0].text, text)
  const helper = client.responses.stream({
    model,
    input: story,
    temperature: 0,
    max_output_tokens: 16
  })
  assert.equal((await helper.finalResponse()).output_text, text)
})

await check(
  'responses: a tool is called, and its result is answered',
  async () => {
    const tools = [{ type: 'function', strict: false, ...weather.function }]
    const more = { tools, max_output_tokens: 100 }
    const input = user(callsOne)
    const first = await respond(input, more, scripted)
    const call = first.output.find((item) => item.type === 'function_call')
    assert.equal(call.name, 'get_weather')
    assert.deepEqual(JSON.parse(call.arguments), { city: 'Oslo' })
    input.push(...first.output, {
      type: 'function_call_output',
      call_id: call.call_id,
      output: asks('It rains.')
    })
    assert.equal(
      (await respond(input, more, scripted)).output_text,
      'It rains.'
    )
    const all = await Array.fromAsync(
      await respond(user(callsOne), { ...more, stream: true }, scripted)
    )
    const deltas = all.filter(
      (event) => event.type === 'response.function_call_arguments.delta'
    )
    assert.equal(deltas.map((event) => event.delta).join(''), call.arguments)
  }
)

await check('responses: reasoning is an item of its own', async () => {
  const reply = await respond(
    asks('<think>\nHm.\n</think>\n\nFour.'),
    { max_output_tokens: 60 },
    scripted
  )
  assert.deepEqual(
    reply.output.map((item) => item.type),
    ['reasoning', 'message']
  )
  assert.equal(reply.output_text.trim(), 'Four.')
  const input = [...reply.output, ...user(asks('Five.'))]
  const next = await respond(input, { max_output_tokens: 60 }, scripted)
  assert.equal(next.output_text, 'Five.', 'the items come back as input')
})

await check('responses: reasoning and calls stream in order', async () => {
  const { function: f } = weather
  const text = callsTwo.replace(
    '[[reply:',
    '[[reply:<think>\nHm.\n</think>\n\n'
  )
  const runner = scripted.responses.stream({
    model,
    input: text,
    max_output_tokens: 200,
    tools: [{ type: 'function', strict: false, ...f }]
  })
  const types = []
  for await (const event of runner) types.push(event.type)
  const { output } = await runner.finalResponse()
  assert.deepEqual(
    output.map((item) => item.type),
    ['reasoning', 'message', 'function_call', 'function_call']
  )
  for (const kind of ['added', 'done']) {
    const all = types.filter((type) => type === `response.output_item.${kind}`)
    assert.equal(all.length, output.length)
  }
  assert.equal(types.at(-1), 'response.completed')
})

await check('responses: unsupported fields are refused by name', async () => {
  for (const [param, value] of Object.entries({
    previous_response_id: 'resp_1',
    background: true,
    conversation: 'conv_1',
    text: { format: { type: 'json_schema', name: 'x', schema: {} } }
  })) {
    await refused(
      respond(story, { [param]: value }),
      OpenAI.BadRequestError,
      param
    )
  }
})

await check('a client that reconnects finds the server usable', async () => {
  await Promise.all(Array.from({ length: 8 }, () => ask()))
  await until('idle', async () => (await sequences()).length === 0)
  await nothingIsHeld()
})

await check('all bodies and chunks follow the OpenAPI document', allWereValid)
finish('openai')
