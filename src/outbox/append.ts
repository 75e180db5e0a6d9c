import { changeOf, type Changed, type Step, type Tx } from '../database/database.ts';
import { statement } from '../database/statement.ts';

const insertMessages = statement(
  'outbox.insert_messages',
  'INSERT INTO outbox_messages (topic, subject_id, first_seq, last_seq, created_at) VALUES ?',
);

export interface Message {
  topic: 'packet.created' | 'packet.grabbed' | 'packet.sold_out' | 'packet.refunded';
  subjectId: string;
  /** packet.grabbed: which grabs it announces; a batch's grabs are neighbours and immutable. */
  seqs?: { first: number; last: number };
}

/** Appends to the outbox in the transaction of the cause; the relay tells the world after the commit. */
export async function append(tx: Tx, messages: readonly Message[], at: Date): Promise<void> {
  await tx.all(appendStep(messages, at));
}

/** The same, to travel with other statements. */
export function appendStep(messages: readonly Message[], at: Date): Step<Changed> {
  const rows = messages.map(({ topic, subjectId, seqs }) => [
    topic,
    subjectId,
    seqs?.first ?? null,
    seqs?.last ?? null,
    at,
  ]);
  return changeOf(insertMessages, [rows]);
}
