// ollama.mjs - Ollama's own package for JavaScript.
import { Ollama } from 'ollama'
import { asks, assert, check, finish, key, keyedUrl } from './check.mjs'
import { model, nothingIsHeld, scriptedUrl, url } from './check.mjs'
import { callsOne, weather } from './tools.mjs'

const real = new Ollama({ host: url })
const scripted = new Ollama({ host: scriptedUrl })
const story = 'Once upon a time there was a little fox.'
const user = (content) => ({ role: 'user', content })
const short = { model, options: { temperature: 0, num_predict: 16 } }
const long = { model, options: { temperature: 0, num_predict: 100 } }

await check('the models are listed and shown', async () => {
  const { models } = await real.list()
  assert.deepEqual(
    models.map(({ name }) => name),
    [model]
  )
  const shown = await real.show({ model })
  assert(shown.capabilities.includes('completion'))
  assert(shown.template.length > 0)
})

await check('a streamed chat gives the text of the whole one', async () => {
  const ask = { ...short, messages: [user(story)] }
  const whole = await real.chat(ask)
  assert(whole.message.content.length > 0)
  assert(whole.done)
  const parts = await Array.fromAsync(await real.chat({ ...ask, stream: true }))
  const text = parts.map((part) => part.message.content).join('')
  assert.equal(text, whole.message.content)
  assert.equal(parts.at(-1).eval_count, whole.eval_count)
})

await check('generate, templated and raw', async () => {
  for (const raw of [false, true]) {
    const ask = { ...short, prompt: story, raw }
    const whole = await real.generate(ask)
    const parts = await Array.fromAsync(
      await real.generate({ ...ask, stream: true })
    )
    assert.equal(parts.map((part) => part.response).join(''), whole.response)
  }
})

await check('thinking is apart from content', async () => {
  const { message } = await scripted.chat({
    ...long,
    think: true,
    messages: [user(asks('<think>\nTwo and two.\n</think>\n\nFour.'))]
  })
  assert.equal(message.thinking.trim(), 'Two and two.')
  assert.equal(message.content.trim(), 'Four.')
})

for (const stream of [false, true]) {
  await check(`a tool loop of two turns, streamed: ${stream}`, async () => {
    const run = async (messages) => {
      const ask = { ...long, messages, tools: [weather], stream }
      const reply = await scripted.chat(ask)
      const parts = stream ? await Array.fromAsync(reply) : [reply]
      return {
        content: parts.map((part) => part.message.content).join(''),
        calls: parts.flatMap((part) => part.message.tool_calls ?? [])
      }
    }
    const messages = [user(callsOne)]
    const { content, calls } = await run(messages)
    assert.deepEqual(calls, [
      { function: { name: 'get_weather', arguments: { city: 'Oslo' } } }
    ])
    messages.push(
      { role: 'assistant', content, tool_calls: calls },
      { role: 'tool', tool_name: 'get_weather', content: asks('It rains.') }
    )
    assert.equal((await run(messages)).content, 'It rains.')
  })
}

await check('errors have their sentence, and keys their header', async () => {
  const ask = { ...short, messages: [user(story)] }
  const bad = { ...ask, options: { temperature: -1 } }
  await assert.rejects(real.chat(bad), /options\.temperature/)
  await assert.rejects(new Ollama({ host: keyedUrl }).chat(ask), /API key/)
  const headers = { Authorization: `Bearer ${key}` }
  const { done } = await new Ollama({ host: keyedUrl, headers }).chat(ask)
  assert(done)
})

await check('an abort frees the slot', async () => {
  const options = { temperature: 0, num_predict: 3000 }
  const stream = await real.chat({
    model,
    options,
    messages: [user(story)],
    stream: true
  })
  await assert.rejects(async () => {
    for await (const part of stream) {
      assert(part)
      stream.abort()
    }
  })
  await nothingIsHeld()
})

finish('ollama')
