/** A page with nothing but the transport, which tests reach as `engine`. */

import { Transport } from "../../src/page/transport";

const transport = new Transport({
  site: new URL(".", location.href).pathname,
  engine: () => Promise.resolve(new Uint8Array([0])),
  options: () => ({}),
});
Object.assign(globalThis, { engine: transport.fetch, ready: transport.ready });
