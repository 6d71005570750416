// Talks to the server at argv[2] with Ollama's JavaScript SDK; prints what it got as one JSON object.
import { Ollama } from 'ollama'

const client = new Ollama({ host: process.argv[2] })
const model = process.argv[3]
const messages = [{ role: 'user', content: 'hi' }]
const got = {}

const chat = await client.chat({ model, messages })
got.chat = { content: chat.message.content, done: chat.done, reason: chat.done_reason, count: chat.prompt_eval_count }

got.streamed = ''
for await (const part of await client.chat({ model, messages, stream: true })) {
  got.streamed += part.message.content
  got.lastDone = part.done
}

got.generated = ''
for await (const part of await client.generate({ model, prompt: 'hi', stream: true, options: { num_predict: 3 } })) {
  got.generated += part.response
  if (part.done) got.generateReason = part.done_reason
}

const tools = [{ type: 'function', function: { name: 'weather', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }]
const called = await client.chat({ model, messages: [{ role: 'user', content: 'call please' }], tools, think: true })
got.calls = called.message.tool_calls
got.thinking = called.message.thinking

got.tags = (await client.list()).models.map((m) => m.name)
got.capabilities = (await client.show({ model })).capabilities
got.running = (await client.ps()).models.map((m) => m.model)
got.version = (await client.version()).version

await client.copy({ source: model, destination: 'copied' })
got.copied = (await client.list()).models.map((m) => m.name)
await client.delete({ model: 'copied' })

try {
  await client.chat({ model: 'nobody', messages })
} catch (error) {
  got.error = { name: error.name, message: error.message, status: error.status_code }
}

const slow = await client.chat({ model, messages: [{ role: 'user', content: 'slow' }], stream: true })
for await (const part of slow) {
  got.first = part.message.content
  slow.abort()
  break
}
console.log(JSON.stringify(got))
