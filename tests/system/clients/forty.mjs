// forty.mjs - Forty behaviours of OpenAI's API, by raw HTTP or by the package
// `openai` (http.mjs).
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
import {
  chat,
  chatBody,
  chatStream,
  complete,
  completeStream,
  get,
  joinChat,
  joinText,
  open,
  packaged,
  post,
  refused
} from './http.mjs'
import { countValidated, validateChunk } from './schemas.mjs'

const chatPath = '/v1/chat/completions'
const long = { max_tokens: 3000, ignore_eos: true }
const story = 'Once upon a time there was a little fox.'

const tokenize = async (body) =>
  (await post('/tokenize', { model, ...body })).body
const textOf = (reply) => reply.body.choices[0].text
const contentOf = (reply) => reply.body.choices[0].message.content

/** Opens a long stream and reads its first events. */
async function openLong(more, signal) {
  const body = { ...chatBody(story, long), ...more }
  const reader = await open(chatPath, body, { signal })
  for (let i = 0; i < 3; i++) await reader.next()
  return reader
}

await check('1 logprobs are null unless asked for', async () => {
  assert.equal((await chat(story)).body.choices[0].logprobs, null)
  assert.equal((await complete(story)).body.choices[0].logprobs, null)
})

await check('2 top_logprobs 0 gives empty lists', async () => {
  const { body } = await chat(story, { logprobs: true, top_logprobs: 0 })
  const { content } = body.choices[0].logprobs
  assert(content.length > 0)
  content.forEach((token) => assert.deepEqual(token.top_logprobs, []))
})

await check('3 top_logprobs 5 gives exactly five, best first', async () => {
  const { body } = await chat(story, { logprobs: true, top_logprobs: 5 })
  for (const { token, logprob, bytes, top_logprobs: top } of body.choices[0]
    .logprobs.content) {
    assert.equal(top.length, 5)
    assert.equal(top[0].token, token, 'temperature 0 takes the best')
    assert.equal(top[0].logprob, logprob)
    assert(Array.isArray(bytes))
    for (let i = 1; i < 5; i++) assert(top[i].logprob <= top[i - 1].logprob)
  }
  const text = await complete(story, { logprobs: 5 })
  text.body.choices[0].logprobs.top_logprobs.forEach((top) =>
    assert(Object.keys(top).length >= 1 && Object.keys(top).length <= 6)
  )
})

await check('4 top_logprobs 21 is refused, streamed or not', async () => {
  const more = { logprobs: true, top_logprobs: 21 }
  refused(await chat(story, more), 400, 'top_logprobs')
  refused(await chatStream(story, more), 400, 'top_logprobs')
  refused(await complete(story, { logprobs: 21 }), 400, 'logprobs')
  refused(await completeStream(story, { logprobs: 21 }), 400, 'logprobs')
  assert.equal(
    (await chat(story, { logprobs: true, top_logprobs: 20 })).status,
    200
  )
})

await check('5 a refusal leaves the server usable', async () => {
  assert.equal((await chat(story)).status, 200)
  await nothingIsHeld()
})

await check('6 max_tokens ends with finish_reason length', async () => {
  const more = { max_tokens: 4, ignore_eos: true }
  assert.equal(
    (await chat(story, more)).body.choices[0].finish_reason,
    'length'
  )
  assert.equal(
    (await complete(story, more)).body.choices[0].finish_reason,
    'length'
  )
  const [choice] = joinChat((await chatStream(story, more)).chunks)
  assert.equal(choice.finish, 'length')
})

await check('7 usage is exact and total is the sum', async () => {
  const more = { max_tokens: 9, ignore_eos: true }
  const prompt = await tokenize({ messages: chatBody(story).messages })
  const { usage } = (await chat(story, more)).body
  assert.equal(usage.prompt_tokens, prompt.count)
  assert.equal(usage.completion_tokens, 9)
  assert.equal(usage.total_tokens, prompt.count + 9)
  const text = await tokenize({ prompt: story })
  const second = (await complete(story, { ...more, n: 3, temperature: 1 })).body
    .usage
  assert.equal(second.prompt_tokens, text.count, 'the prompt counts once')
  assert.equal(second.completion_tokens, 27)
  assert.equal(second.total_tokens, text.count + 27)
})

await check('8 max_completion_tokens limits as max_tokens does', async () => {
  const more = {
    max_tokens: undefined,
    max_completion_tokens: 5,
    ignore_eos: true
  }
  const { body } = await chat(story, more)
  assert.equal(body.usage.completion_tokens, 5)
  assert.equal(body.choices[0].finish_reason, 'length')
  refused(
    await chat(story, { max_completion_tokens: 0 }),
    400,
    'max_completion_tokens'
  )
})

await check('9 the streamed text equals the whole answer', async () => {
  const more = { max_tokens: 40, logprobs: true, top_logprobs: 2 }
  const whole = await chat(story, more)
  const [choice] = joinChat((await chatStream(story, more)).chunks)
  assert.equal(choice.content, contentOf(whole))
  assert.deepEqual(choice.logprobs, whole.body.choices[0].logprobs.content)
  const text = await complete(story, { max_tokens: 40 })
  const { chunks } = await completeStream(story, { max_tokens: 40 })
  assert.equal(joinText(chunks), textOf(text))
})

await check(
  '10 one finish_reason, in the last chunk of the choice',
  async () => {
    const { chunks } = await chatStream(story, { n: 2, temperature: 1 })
    for (const index of [0, 1]) {
      const finishes = chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.finish_reason)
      assert.equal(finishes.filter((finish) => finish !== null).length, 1)
      assert.notEqual(finishes.at(-1), null)
    }
  }
)

await check('11 role is assistant, in the first delta only', async () => {
  const { chunks } = await chatStream(story)
  const deltas = chunks.flatMap((chunk) => chunk.choices).map((c) => c.delta)
  assert.equal(deltas[0].role, 'assistant')
  assert(deltas.slice(1).every((delta) => delta.role === undefined))
  assert.equal((await chat(story)).body.choices[0].message.role, 'assistant')
})

await check('12 without include_usage no chunk has usage', async () => {
  for (const more of [{}, { stream_options: { include_usage: false } }]) {
    const { chunks } = await chatStream(story, more)
    assert(chunks.every((chunk) => (chunk.usage ?? null) === null))
    assert(chunks.every((chunk) => chunk.choices.length > 0))
  }
})

await check(
  '13 with include_usage the last chunk has usage and no choices',
  async () => {
    const more = { stream_options: { include_usage: true } }
    for (const { chunks } of [
      await chatStream(story, more),
      await completeStream(story, more)
    ]) {
      const last = chunks.pop()
      assert.deepEqual(last.choices, [])
      assert.equal(
        last.usage.total_tokens,
        last.usage.prompt_tokens + last.usage.completion_tokens
      )
      assert(chunks.every((chunk) => chunk.usage === null))
    }
    const whole = (await chat(story)).body.usage
    assert.deepEqual((await chatStream(story, more)).chunks.at(-1).usage, whole)
  }
)

await check('14 stream_options without stream is refused', async () => {
  const more = { stream_options: { include_usage: true } }
  refused(await chat(story, more), 400, 'stream_options')
  refused(await complete(story, more), 400, 'stream_options')
})

await check('15 continuous usage grows', async () => {
  const { chunks } = await chatStream(story, {
    max_tokens: 20,
    ignore_eos: true,
    stream_options: { include_usage: true, continuous_usage_stats: true }
  })
  const counts = chunks.map((chunk) => chunk.usage.completion_tokens)
  for (let i = 1; i < counts.length; i++) assert(counts[i] >= counts[i - 1])
  assert.equal(counts.at(-1), 20)
  assert(new Set(counts).size > 3, `it grows: ${counts}`)
})

await check(
  '16 and 17 an error in a stream is a chunk, then [DONE]',
  async () => {
    const reader = await openLong({})
    const [one] = await sequences()
    await ctl('cancel', one.sequence.request_id)
    const rest = await Array.fromAsync(reader)
    assert.equal(rest.pop(), '[DONE]')
    const error = JSON.parse(rest.pop())
    validateChunk(chatPath, error)
    assert.equal(typeof error.error.message, 'string')
    await nothingIsHeld()
  }
)

await check('16 [DONE] ends a stream of text', async () => {
  assert.equal((await completeStream(story)).status, 200) // checked by stream()
})

await check('18 json_schema without a schema is refused', async () => {
  refused(
    await chat(story, { response_format: { type: 'json_schema' } }),
    400,
    'response_format'
  )
  refused(
    await chat(story, {
      response_format: { type: 'json_schema', json_schema: { name: 'x' } }
    }),
    400,
    'response_format'
  )
})

await check(
  '19 a schema is refused by name until it can be obeyed',
  async () => {
    const reply = await chat(story, {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { type: 'object' } }
      }
    })
    refused(reply, 400, 'response_format')
    assert.match(reply.body.error.message, /json_schema/)
    refused(
      await chat(story, { response_format: { type: 'json_object' } }),
      400,
      'response_format'
    )
  }
)

await check('20 a grammar is refused', async () => {
  refused(
    await chat(story, { structured_outputs: { grammar: 'root ::= (' } }),
    400,
    'structured_outputs'
  )
  refused(await chat(story, { guided_json: {} }), 400, 'guided_json')
})

await check('21 system content may be a text or a list of texts', async () => {
  const asText = (content) =>
    post(chatPath, {
      ...chatBody(story),
      messages: [
        { role: 'system', content },
        { role: 'user', content: story }
      ]
    })
  const one = await asText('Be kind.')
  const two = await asText([{ type: 'text', text: 'Be kind.' }])
  assert.equal(one.status, 200)
  assert.equal(contentOf(two), contentOf(one))
  assert.deepEqual(two.body.usage, one.body.usage)
})

await check('22 a body that is no object is refused', async () => {
  for (const path of [
    chatPath,
    '/v1/completions',
    '/v1/responses',
    '/tokenize',
    '/detokenize'
  ]) {
    for (const body of [
      '[]',
      '"x"',
      '1',
      'null',
      'true',
      '',
      '{',
      '{"a":1}}',
      '\u0000'
    ]) {
      refused(await post(path, body), 400)
    }
  }
})

await check('23 logit_bias is checked, and obeyed', async () => {
  for (const bias of [
    { 5: 101 },
    { 5: -100.5 },
    { x: 1 },
    { 5: 'x' },
    { 999999: 1 },
    [],
    1
  ]) {
    refused(await chat(story, { logit_bias: bias }), 400, 'logit_bias')
  }
  const forced = await complete(story, {
    logit_bias: { 65: 100 },
    max_tokens: 3
  })
  const { tokens } = await tokenize({
    prompt: textOf(forced),
    add_special_tokens: false
  })
  assert.equal(forced.status, 200)
  assert.equal(textOf(forced), 'bbb', `token 65 three times: ${tokens}`)
})

await check('24 stop_token_ids are checked, and obeyed', async () => {
  for (const ids of [[-1], ['x'], 1, [1.5], [999999]]) {
    refused(
      await complete(story, { stop_token_ids: ids }),
      400,
      'stop_token_ids'
    )
  }
  const { body } = await complete(story, {
    stop_token_ids: [65],
    logit_bias: { 65: 100 }
  })
  assert.equal(body.choices[0].finish_reason, 'stop')
  assert.equal(body.usage.completion_tokens, 1)
})

await check('25 tool_choice null is accepted', async () => {
  assert.equal(
    (await chat(story, { tool_choice: null, tools: null })).status,
    200
  )
})

await check('26 an empty list of prompts is refused', async () => {
  refused(await complete([]), 400, 'prompt')
  refused(await complete([[]]), 400, 'prompt')
})

await check('27 text_offset counts characters', async () => {
  const { body } = await complete(story, { logprobs: 1, max_tokens: 20 })
  const {
    tokens,
    text_offset: offsets,
    token_logprobs: own
  } = body.choices[0].logprobs
  assert.equal(tokens.length, offsets.length)
  assert.equal(own.length, offsets.length)
  let at = offsets[0]
  tokens.forEach((token, i) => {
    assert.equal(offsets[i], at, `offset of token ${i}`)
    at += [...token].length
  })
})

await check('28 echo puts the prompt before the text', async () => {
  const plain = await complete(story)
  const echo = await complete(story, { echo: true })
  assert.equal(textOf(echo), story + textOf(plain))
  const { chunks } = await completeStream(story, { echo: true })
  assert.equal(joinText(chunks), textOf(echo))
})

await check('29 a prompt may be ids, and a list of either', async () => {
  const { tokens } = await tokenize({
    prompt: story,
    add_special_tokens: false
  })
  const plain = textOf(await complete(story))
  assert.equal(textOf(await complete(tokens)), plain)
  for (const prompts of [
    [story, story],
    [tokens, tokens]
  ]) {
    const { body } = await complete(prompts)
    assert.deepEqual(
      body.choices.map((choice) => [choice.index, choice.text]),
      [
        [0, plain],
        [1, plain]
      ]
    )
  }
})

await check('30 the same seed gives the same text', async () => {
  const more = { temperature: 1, seed: 42, max_tokens: 24 }
  assert.equal(
    contentOf(await chat(story, more)),
    contentOf(await chat(story, more))
  )
})

await check('31 another seed gives another text', async () => {
  const texts = new Set()
  for (const seed of [1, 2, 3, 4]) {
    texts.add(
      contentOf(await chat(story, { temperature: 1, seed, max_tokens: 24 }))
    )
  }
  assert(texts.size > 1)
})

await check('32 a text does not depend on the batch', async () => {
  const more = { temperature: 1, seed: 7, max_tokens: 24 }
  const alone = contentOf(await chat(story, more))
  const together = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      i === 4
        ? chat(story, more)
        : chat(story.repeat(i + 1), { ...more, seed: i })
    )
  )
  assert.equal(contentOf(together[4]), alone)
})

await check('33 usage reports cached_tokens', async () => {
  const { usage } = (await chat(story)).body
  assert(Number.isInteger(usage.prompt_tokens_details.cached_tokens))
})

await check('34 n choices have the indices 0 to n - 1', async () => {
  const more = { n: 3, temperature: 1, seed: 5 }
  const whole = (await chat(story, more)).body.choices
  assert.deepEqual(
    whole.map((choice) => choice.index),
    [0, 1, 2]
  )
  const joined = joinChat((await chatStream(story, more)).chunks)
  assert.deepEqual(
    joined.map((choice) => choice.content),
    whole.map((choice) => choice.message.content)
  )
})

await check(
  '35 a context that is exceeded is refused, streamed or not',
  async () => {
    const many = 'word '.repeat(6000)
    for (const ask of [chat, chatStream, complete, completeStream]) {
      const reply = await ask(many)
      refused(reply, 400)
      assert.match(reply.body.error.message, /4096/, 'the limit is named')
      refused(await ask(story, { max_tokens: 5000 }), 400)
    }
  }
)

await check('36 a client that closes frees its slot', async () => {
  const abort = new AbortController()
  const reader = await openLong({}, abort.signal)
  assert.equal((await sequences()).length, 1)
  abort.abort()
  await Array.fromAsync(reader).catch(() => {}) // it ends, or throws
  await nothingIsHeld()
  const whole = new AbortController()
  const { signal } = whole
  const asked = post(chatPath, chatBody(story, long), { signal })
  await until('the request runs', async () => (await sequences()).length === 1)
  whole.abort()
  await assert.rejects(asked)
  await nothingIsHeld()
})

await check('37 a wrong key is 401, and public paths are open', async () => {
  const withKey = (value) =>
    post(chatPath, chatBody(story), {
      base: keyedUrl,
      headers: value === undefined ? {} : { authorization: `Bearer ${value}` }
    })
  refused(await withKey(), 401)
  refused(await withKey('sk-wrong'), 401)
  refused(await withKey(key.slice(0, -1)), 401)
  assert.equal((await withKey(key)).status, 200)
  assert.equal((await get('/health', keyedUrl)).status, 200)
  assert.equal((await get('/v1/models', keyedUrl)).status, 401)
  assert.equal(
    (await get('/v1/models', keyedUrl, { authorization: `Bearer ${key}` }))
      .status,
    200
  )
})

await check('38 a CORS preflight is answered', async () => {
  const reply = await fetch(url + chatPath, {
    method: 'OPTIONS',
    headers: {
      origin: 'http://example.org',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type'
    }
  })
  assert(reply.ok, String(reply.status))
  assert.match(
    reply.headers.get('access-control-allow-origin'),
    /^(\*|http:\/\/example\.org)$/
  )
  assert.match(reply.headers.get('access-control-allow-methods'), /POST/)
  assert.match(
    reply.headers.get('access-control-allow-headers'),
    /authorization|\*/i
  )
  const answer = await post(chatPath, chatBody(story), {
    headers: { origin: 'http://example.org' }
  })
  assert(answer.headers.get('access-control-allow-origin'))
})

await check('39 continue_final_message continues the text', async () => {
  const messages = [
    { role: 'user', content: 'Tell a story.' },
    { role: 'assistant', content: 'Once upon a time' }
  ]
  const more = {
    messages,
    continue_final_message: true,
    add_generation_prompt: false
  }
  const { tokens } = await tokenize(more)
  const { body } = await post('/detokenize', { model, tokens })
  assert(body.prompt.endsWith('assistant\nOnce upon a time'), body.prompt)
  const chatReply = await post(chatPath, { ...chatBody(story), ...more })
  assert.equal(contentOf(chatReply), textOf(await complete(tokens)))
  refused(
    await post(chatPath, {
      ...chatBody(story),
      ...more,
      add_generation_prompt: true
    }),
    400
  )
})

await check('40 reasoning is apart from content', async () => {
  const answer = asks('<think>\nTwo and two.\n</think>\n\nFour.')
  const { body } = await chat(answer, { max_tokens: 60 }, scriptedUrl)
  const { message } = body.choices[0]
  assert.equal(message.content.trim(), 'Four.')
  assert.equal(message.reasoning_content.trim(), 'Two and two.')
  const [choice] = joinChat(
    (await chatStream(answer, { max_tokens: 60 }, scriptedUrl)).chunks
  )
  assert.equal(choice.content, message.content)
  assert.equal(choice.reasoning, message.reasoning_content)
  assert(body.usage.completion_tokens_details.reasoning_tokens > 0)
  refused(
    await chat(answer, { thinking_token_budget: -1 }, scriptedUrl),
    400,
    'thinking_token_budget'
  )
  refused(
    await chat(answer, { reasoning_effort: 'most' }, scriptedUrl),
    400,
    'reasoning_effort'
  )
})

await check('models are listed and found', async () => {
  const { body } = await get('/v1/models')
  assert(body.data.some((one) => one.id === model))
  assert.equal((await get(`/v1/models/${model}`)).body.id, model)
  assert.equal((await get('/v1/models/none')).status, 404)
  const reply = await post(chatPath, { ...chatBody(story), model: 'none' })
  refused(reply, 404, 'model')
  assert.equal(reply.body.error.code, 'model_not_found')
})

await check(
  'a path that does not exist is 404, another method 405',
  async () => {
    assert.equal((await get('/v1/none')).status, 404)
    assert.equal((await get(chatPath)).status, 405)
  }
)

console.log(`${countValidated()} bodies and chunks validated`)
finish(packaged ? 'the package openai' : 'raw HTTP')
