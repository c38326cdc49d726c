/** The names of the files that this page has uploaded, by what inputs name them. */

const names = new Map<string, string>();

export const rememberUpload = (upload: string, name: string): void => void names.set(upload, name);

/** The name of an uploaded file. Of one that another page has uploaded, what is known: that it is one. */
export const uploadName = (value: unknown): string | undefined =>
  typeof value === "string" && value.startsWith("upload:") ? (names.get(value) ?? "an uploaded file") : undefined;
