import { Command } from 'commander';
import { scopes } from '../http/route.ts';
import { createKey, listKeys, revokeKey } from '../keys/keys.ts';
import { Refusal } from '../refusal.ts';
import { withDatabase } from './database.ts';
import { print, table } from './output.ts';

export function keysCommand(): Command {
  const keys = new Command('keys').description('API keys of client apps');
  keys
    .command('create')
    .description('make a key; its secret is shown once and stored nowhere')
    .requiredOption('--name <name>', 'for people: which app it is for')
    .requiredOption('--scopes <scopes>', `comma-separated: ${scopes.join(', ')}`)
    .option('--json', 'print JSON')
    .action(async ({ name, scopes: list, json }: { name: string; scopes: string; json?: boolean }) => {
      const wanted = checkedScopes(list);
      if (name.trim() === '' || Array.from(name).length > 100) {
        throw new Refusal('INVALID_REQUEST', {
          faults: [{ path: '--name', message: 'must have 1 to 100 characters' }],
        });
      }
      const made = await withDatabase(async (database) => await createKey(database, name.trim(), wanted));
      print(
        json === true
          ? JSON.stringify({ ...made, scopes: wanted })
          : `Key ${made.id} for "${name}":\n\n  ${made.key}\n\nKeep it: it is not shown again.`,
      );
    });
  keys
    .command('list')
    .description('the keys, without their secrets')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const all = await withDatabase(listKeys);
      if (json === true) {
        print(JSON.stringify(all.map(({ secretHash: _, ...key }) => key)));
        return;
      }
      if (all.length === 0) {
        print('There are no keys. Make one with: keys create --name N --scopes a,b');
        return;
      }
      print(
        table(
          ['id', 'name', 'scopes', 'created', 'revoked'],
          all.map((key) => [
            key.id,
            key.name,
            key.scopes.join(','),
            key.createdAt.toISOString(),
            key.revokedAt?.toISOString() ?? '–',
          ]),
        ),
      );
    });
  keys
    .command('revoke <id>')
    .description('end a key; running services refuse it within 5 seconds')
    .action(async (id: string) => {
      await withDatabase(async (database) => await revokeKey(database, id));
      print(`Key ${id} is revoked. Running services refuse it within 5 seconds.`);
    });
  return keys;
}

function checkedScopes(list: string): string[] {
  const wanted = [...new Set(list.split(',').map((scope) => scope.trim()))];
  const known = new Set<string>(scopes);
  const faults = wanted
    .filter((scope) => !known.has(scope))
    .map((scope) => ({
      path: '--scopes',
      message: `"${scope}" is not a scope; known are ${scopes.join(', ')}`,
    }));
  if (faults.length > 0) throw new Refusal('INVALID_REQUEST', { detail: 'The key was not made.', faults });
  return wanted;
}
