import { createRequire } from "node:module";

/** The package that has the program for this machine. */
export const PLATFORM = `@llm-do/${process.platform}-${process.arch}`;

/** The program of that package, if it is installed: an optional dependency of this one, which needs no download after it. */
export function packagedBinary(): string | undefined {
  const name = process.platform === "win32" ? "llm-do.exe" : "llm-do";
  try {
    return createRequire(import.meta.url).resolve(`${PLATFORM}/bin/${name}`);
  } catch {
    return undefined;
  }
}
