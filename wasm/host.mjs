// A host of the module: node, with a clock that the test moves.
import { readFile } from "node:fs/promises";
import { strict as assert } from "node:assert";

let now = performance.now(); // and in earnest: performance_now: () => performance.now()
let status = 200;
let fetched = 0;
const imports = { host: { performance_now: () => now, fetch: () => (fetched++, status) } };
const module = await WebAssembly.instantiate(await readFile(process.argv[2]), imports);
const { call } = module.instance.exports;
const calls = (n) => Array.from({ length: n }, call);

assert.deepEqual(calls(7), [200, 200, 200, 200, 200, 429, 429], "five at once");
now += 100;
assert.deepEqual(calls(2), [200, 429], "one more after 100 ms");
now += 500;
status = 502;
assert.deepEqual(calls(4), [502, 502, 502, 503], "three failures open the breaker");
fetched = 0;
now += 500;
assert.deepEqual([...calls(1), fetched], [503, 0], "the server is left alone");
now += 500;
status = 204;
assert.deepEqual(calls(2), [204, 204], "a probe closes it");
console.log("as told");
