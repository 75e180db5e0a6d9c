import { Command } from 'commander';
import { proofOf } from '../packet/read.ts';
import { checkProof } from '../packet/split/proof.ts';
import { withDatabase } from './database.ts';
import { FindingsError, print, table } from './output.ts';

export function proofCommand(): Command {
  return new Command('proof')
    .description("recompute a finished packet's shares from its published seed; exit code 1 if they differ")
    .argument('<packet>', 'the packet id')
    .option('--json', 'print JSON')
    .action(async (id: string, { json }: { json?: boolean }) => {
      const proof = await withDatabase(async (database) => await proofOf(database, id));
      const faults = checkProof(proof);
      if (json === true) print(JSON.stringify({ ...proof, fair: faults.length === 0, faults }));
      else {
        const rows = [
          ['packet', proof.packetId],
          ['split', `${proof.totalAmount} fen into ${proof.shareCount} by ${proof.split}`],
          ['bounds', `${proof.minShare} to ${proof.maxShare ?? 'any'} fen`],
          ['seed', proof.seed],
          ['commitment', proof.commitment],
          ['verdict', faults.length === 0 ? 'fair: the seed gives exactly these shares' : faults.join('; ')],
        ];
        print(table(['proof', ''], rows));
      }
      if (faults.length > 0) throw new FindingsError();
    });
}
