import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

/** The file's text, or null if there is none. */
export function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

/** Replaces a file as a whole, readable by its owner only: a crash leaves the old text or the new one. */
export function replaceFile(path: string, text: string): void {
  const draft = draftOf(path);
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, path);
}

/** Makes a file with its whole text, readable by its owner only; false if there is one already, which stays. */
export function createFile(path: string, text: string): boolean {
  const draft = draftOf(path);
  writeFileSync(draft, text, { mode: 0o600 });
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

function draftOf(path: string): string {
  return `${path}.${randomBytes(4).toString('hex')}`;
}
