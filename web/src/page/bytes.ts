/** Bytes as Base64 and as text. */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export type Bytes = Uint8Array<ArrayBuffer>;

export const encoded = (text: string): Bytes => encoder.encode(text);
export const decoded = (bytes: Uint8Array): string => decoder.decode(bytes);

/** Arguments of one call of `String.fromCharCode`. */
const AT_ONCE = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += AT_ONCE) text += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  return btoa(text);
}

export function fromBase64(text: string): Bytes {
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let at = 0; at < plain.length; at++) bytes[at] = plain.charCodeAt(at);
  return bytes;
}

/** Whether the bytes begin as a gzip file does. */
const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Unpacks a gzip file. Other bytes stay as they are: some servers unpack such a file themselves. */
export async function unpacked(bytes: Bytes): Promise<Bytes> {
  if (!isGzip(bytes)) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
