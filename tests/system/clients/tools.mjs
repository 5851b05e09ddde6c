// tools.mjs - A tool, and answers of a model that calls it.
import { asks } from './check.mjs'

export const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city']
    }
  }
}

const call = (city) =>
  '<tool_call>\n' +
  JSON.stringify({ name: 'get_weather', arguments: { city } }) +
  '\n</tool_call>'

export const cities = ['Kraków', 'Oslo']
export const callsOne = asks(call('Oslo'))
export const callsTwo = asks('I will look. ' + cities.map(call).join('\n'))
