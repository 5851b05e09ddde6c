// ai.mjs - The Vercel AI SDK through @ai-sdk/openai-compatible.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import {
  asks,
  assert,
  check,
  finish,
  key,
  keyedUrl,
  model,
  nothingIsHeld,
  scriptedUrl,
  url
} from './check.mjs'
import { callsOne, weather } from './tools.mjs'
import { allWereValid, watchedFetch } from './watched.mjs'

const provider = (base, apiKey) =>
  createOpenAICompatible({
    name: 'sluice',
    baseURL: `${base}/v1`,
    apiKey,
    fetch: watchedFetch,
    includeUsage: true
  })(model)
const real = provider(url)
const scripted = provider(scriptedUrl)
const prompt = 'Once upon a time there was a little fox.'
const short = { maxOutputTokens: 16, temperature: 0, maxRetries: 0 }

await check('generateText gives text and usage', async () => {
  const { text, usage, finishReason } = await generateText({
    model: real,
    prompt,
    ...short
  })
  assert(text.length > 0)
  assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens)
  assert(['stop', 'length'].includes(finishReason))
})

await check('streamText gives the same text', async () => {
  const whole = await generateText({ model: real, prompt, ...short })
  const stream = streamText({ model: real, prompt, ...short })
  const parts = await Array.fromAsync(stream.textStream)
  assert.equal(parts.join(''), whole.text)
  assert.equal((await stream.usage).totalTokens, whole.usage.totalTokens)
})

await check('reasoning is apart from text', async () => {
  const ask = {
    model: scripted,
    ...short,
    maxOutputTokens: 60,
    prompt: asks('<think>\nTwo and two.\n</think>\n\nFour.')
  }
  const { text, reasoningText } = await generateText(ask)
  assert.equal(text.trim(), 'Four.')
  assert.equal(reasoningText.trim(), 'Two and two.')
  const stream = streamText(ask)
  assert.equal((await stream.text).trim(), 'Four.')
  assert.equal((await stream.reasoningText).trim(), 'Two and two.')
})

for (const [name, run] of Object.entries({ generateText, streamText })) {
  await check(`${name} calls a tool and answers with its result`, async () => {
    const asked = []
    const result = await run({
      model: scripted,
      prompt: callsOne,
      ...short,
      maxOutputTokens: 100,
      stopWhen: stepCountIs(3),
      tools: {
        get_weather: tool({
          description: weather.function.description,
          inputSchema: jsonSchema(weather.function.parameters),
          execute: async ({ city }) => {
            asked.push(city)
            return asks('It rains.')
          }
        })
      }
    })
    assert.equal(await result.text, 'It rains.')
    assert.deepEqual(asked, ['Oslo'])
    assert.equal((await result.steps).length, 2)
  })
}

await check('an abort frees the slot', async () => {
  const abort = new AbortController()
  const stream = streamText({
    model: real,
    prompt,
    temperature: 0,
    maxOutputTokens: 3000,
    abortSignal: abort.signal,
    onError() {}
  })
  for await (const part of stream.textStream) {
    assert.equal(typeof part, 'string')
    abort.abort()
  }
  await nothingIsHeld()
})

await check('an error has its status and sentence', async () => {
  await assert.rejects(
    generateText({ model: provider(keyedUrl, 'sk-wrong'), prompt, ...short }),
    (error) => error.statusCode === 401
  )
  await assert.rejects(
    generateText({ model: real, prompt, ...short, temperature: -1 }),
    (error) => error.statusCode === 400 && /temperature/.test(error.message)
  )
  const { text } = await generateText({
    model: provider(keyedUrl, key),
    prompt,
    ...short
  })
  assert(text.length > 0)
})

await check('all bodies and chunks follow the OpenAPI document', allWereValid)
finish('ai')
