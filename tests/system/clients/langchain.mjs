// langchain.mjs - LangChain through @langchain/openai.
import {
  HumanMessage,
  SystemMessage,
  ToolMessage
} from '@langchain/core/messages'
import { ChatOpenAI, OpenAI } from '@langchain/openai'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'
import {
  asks,
  assert,
  check,
  finish,
  model,
  nothingIsHeld,
  scriptedUrl,
  url
} from './check.mjs'
import { callsOne, weather } from './tools.mjs'
import { allWereValid, watchedFetch } from './watched.mjs'

const configuration = (base) => ({ baseURL: `${base}/v1`, fetch: watchedFetch })
const chatOf = (base, more = {}) =>
  new ChatOpenAI({
    model,
    apiKey: 'none',
    temperature: 0,
    maxTokens: 16,
    maxRetries: 0,
    configuration: configuration(base),
    ...more
  })
const chat = chatOf(url)
const scripted = chatOf(scriptedUrl, { maxTokens: 100 })
const prompt = 'Once upon a time there was a little fox.'

await check('invoke gives content and usage', async () => {
  const reply = await chat.invoke([
    new SystemMessage('Be kind.'),
    new HumanMessage(prompt)
  ])
  assert(reply.content.length > 0)
  const {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total
  } = reply.usage_metadata
  assert.equal(total, input + output)
})

await check('stream gives the same content', async () => {
  const whole = await chat.invoke(prompt)
  const chunks = await Array.fromAsync(await chat.stream(prompt))
  assert.equal(chunks.map((chunk) => chunk.content).join(''), whole.content)
})

await check('batch gives an answer for each prompt', async () => {
  const whole = await chat.invoke(prompt)
  const all = await chat.batch([prompt, prompt, prompt])
  assert.deepEqual(
    all.map((reply) => reply.content),
    Array(3).fill(whole.content)
  )
})

await check('text completions', async () => {
  const text = new OpenAI({
    model,
    apiKey: 'none',
    temperature: 0,
    maxTokens: 8,
    maxRetries: 0,
    configuration: configuration(url)
  })
  assert(typeof (await text.invoke(prompt)) === 'string')
})

await check('a bound tool is called, whole and streamed', async () => {
  const bound = scripted.bindTools([weather])
  const messages = [new HumanMessage(callsOne)]
  const reply = await bound.invoke(messages)
  assert.equal(reply.tool_calls.length, 1)
  assert.deepEqual(reply.tool_calls[0].args, { city: 'Oslo' })
  let joined
  for await (const chunk of await bound.stream(messages)) {
    joined = joined === undefined ? chunk : joined.concat(chunk)
  }
  assert.deepEqual(
    joined.tool_calls.map(({ name, args }) => ({ name, args })),
    [{ name: 'get_weather', args: { city: 'Oslo' } }]
  )
  messages.push(
    reply,
    new ToolMessage({
      content: asks('It rains.'),
      tool_call_id: reply.tool_calls[0].id
    })
  )
  assert.equal((await bound.invoke(messages)).content, 'It rains.')
})

await check('an agent calls a tool and answers', async () => {
  const asked = []
  const agent = createAgent({
    model: scripted,
    tools: [
      tool(
        ({ city }) => {
          asked.push(city)
          return asks('It rains.')
        },
        {
          name: 'get_weather',
          description: 'Weather of a city',
          schema: z.object({ city: z.string() })
        }
      )
    ]
  })
  const { messages } = await agent.invoke({
    messages: [{ role: 'user', content: callsOne }]
  })
  assert.equal(messages.at(-1).content, 'It rains.')
  assert.deepEqual(asked, ['Oslo'])
})

await check('an abort frees the slot', async () => {
  const abort = new AbortController()
  const stream = await chatOf(url, { maxTokens: 3000 }).stream(prompt, {
    signal: abort.signal
  })
  await assert.rejects(async () => {
    for await (const chunk of stream) {
      assert(chunk)
      abort.abort()
    }
  })
  await nothingIsHeld()
})

await check('an error has its status', async () => {
  await assert.rejects(
    chatOf(url, { temperature: -1 }).invoke(prompt),
    (error) => error.status === 400
  )
})

await check('all bodies and chunks follow the OpenAPI document', allWereValid)
finish('langchain')
