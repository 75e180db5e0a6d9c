-- A grab's row carries one index less. The primary key holds the amount too, so it serves the foreign key to the share;
-- and since a share (packet_id, seq) has exactly one amount, which that key demands, a share still has one grab at the most.

ALTER TABLE grabs DROP PRIMARY KEY, ADD PRIMARY KEY (packet_id, seq, amount), DROP KEY grabs_share;
