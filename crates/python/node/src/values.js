// Values: results and arguments as JSON.

/** A value as JSON. A value that JSON can't hold is an error: nothing is left out silently. */
function plain(value, what, depth = 0, above = []) {
  const refuse = (why) => {
    throw new Told("result", `${what} ${why}`);
  };
  if (depth > MAX_DEPTH) refuse(`is nested more than ${MAX_DEPTH} levels deep`);
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "undefined":
      return null;
    case "number":
      if (!Number.isFinite(value)) refuse(`holds ${value}, which JSON can't hold`);
      return value;
    case "bigint":
      if (!Number.isSafeInteger(Number(value))) refuse(`holds ${value}n, which JSON can't hold exactly: return a text`);
      return Number(value);
    case "function":
    case "symbol":
      return refuse(`holds a ${typeof value}, which JSON can't hold`);
  }
  if (value === null) return null;
  if (above.includes(value)) refuse("holds itself");
  const inside = (item) => plain(item, what, depth + 1, [...above, value]);
  if (typeof value.toJSON === "function" && !Buffer.isBuffer(value)) return inside(value.toJSON());
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    refuse("holds bytes: write them to a file and return its path, or return a text");
  }
  if (typeof value.then === "function") refuse("holds a promise: await it");
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, inside);
  if (value instanceof Error) return inside({ name: value.name, message: value.message });
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  const made = {};
  for (const [key, item] of entries) {
    if (typeof key !== "string") refuse(`holds a Map whose key is a ${typeof key}: keys of JSON are texts`);
    if (item !== undefined) Object.defineProperty(made, key, { value: inside(item), enumerable: true });
  }
  return made;
}
