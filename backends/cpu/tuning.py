"""Constants of the CPU backend that were found by measuring, in one table.

Below each stands, in brackets, its unit and what measures it, then what it means. Names are those
of workloads: `fuser-bench tune --preset rows --constant NAME --value V --value W … WORKLOAD …` (or
another preset that has them) times the kernels under each value, beside the present one. "no
command" says that a whole process is needed, or that the order of sums, not time, decides. First
values were found on a 2.5 GHz processor with 512-bit vectors and 32 KB, 1 MB and 32 MB of caches,
or on an EPYC with 256-bit ones. What can be read from the machine is read: features, threads, the
size of the last cache (`machine.target`). Constants that change the order of a sum must not depend
on the machine: the same program has the same bits everywhere.
"""

from __future__ import annotations

# -- what work costs, and how it is shared among threads (`costs`) -----------------------------

POOLED_BYTES = 1 << 18
"""[bytes; no command] Arrays of this size and more come from the output pool. The C library gives
memory back to the system when more than twice the largest block lies unused at its end, so that the
page faults of two results of this size cost ten times what writing them does."""
THREAD_NS = 7_500
"""[ns; no command] Estimated work for which it is worth having a thread."""
PARALLEL_NS = 2 * THREAD_NS
"""[ns; no command] Work below this stays on the calling thread."""
BRIEF_NS = 100_000
"""[ns; no command] Work below this is brief: workers that sleep are not woken for it alone."""
CHUNK_NS = THREAD_NS / 4
"""[ns; axpy row_mean] Estimated work of one chunk, at least: taking it costs a fiftieth of that,
and a caller that has finished waits for what a late helper has begun."""
LEAST_CHUNK, MOST_CHUNK = 1 << 10, 1 << 14
"""[elements; axpy row_mean] Of one chunk: pages are read to their end, and the second cache holds
the operands."""
MANY_CHUNKS = 256
"""[chunks; axpy row_mean] Work of many chunks is cut into about so many, so that prefetching is not
begun anew too often."""
MOST_ROW_CHUNK = 1 << 16
"""[elements; axpy row_mean] Of one chunk of rows, at most: 16 M in rows of 257 are added 1.05 to
1.2 times as fast as by a quarter of that."""
BYTE_NS, LIGHT_NS, REDUCED_NS = 0.017, 0.012, 0.03
"""[ns an element on one thread; axpy row_mean] A byte moved; on four bytes a light operation (the
unit of `fuser.ir.costs`), and a light one of a reduction."""
APART = 4
"""[factor; axpy row_mean] Elements that lie apart are picked one by one, which costs so many
times."""
CHAIN_CHUNKS = 256
"""[chunks; no command] Row blocks of nests that run by turns are shared out in so many at most."""

# -- one pass over elements (`flattened_loops`, `packing`, `wrappers`) ----

FLATTENED_LONGEST, FLATTENED_ELEMENTS = 16, 2048
"""[elements; bias_add standardise colour_conversion] The longest innermost loop that is flattened,
and the least elements in all for which that matters."""
FLATTENED_TILE = 512
"""[elements; bias_add standardise colour_conversion] Computed as one row: scratch memory stays in
the first cache."""
FLATTENED_ROWS = 2
"""[rows; bias_add standardise colour_conversion] Of one tile, at least, where a row has two
loops."""
FLATTENED_COPIED = 8
"""[elements; bias_add standardise colour_conversion] Copied in one iteration."""
SCAN_VECTORS, SCAN_COLUMNS = 4, 256
"""[times as many lanes, columns; drawdown] Of columns beside each other that results run down."""
SCAN_BYTES = 32
"""[bytes; cumulative_share moving_average] Of a vector whose results run along it: beside vectors
of 64 bytes, sums of two doubles wait 3 cycles for each other and not 2."""
NARROW_VECTORS = 8
"""[times as many lanes; heat_3d] Of rows that take one native vector at a time where two would
compute more elements in vain, at most."""
STREAMED_VECTORS = 8
"""[vectors; bias_add standardise colour_conversion] Rows that are shorter are not worth aligning
for streaming stores."""

# -- what rows cost (`row_costs`, `choose_reduction`) -------------------------------------------

ROW_COSTS = {
    "rows": (33, 63, 283, 9, 62, 400, 394, 5, 1905, 1118),
    "batches": (198, 101, 1234, 4, 16, 154, 392, 51, 17, 193),
    "unrolled": (47, 5, 26, 13, 159, 150, 250, 600, 94, 4789),
    "unrolled batches": (5, 52, 236, 24, 5, 281, 138, 5, 45, 5),
    "gathered": (5, 17, 74, 35, 208, 375, 5, 775, 5, 172),
    "deinterleaved": (5, 3, 6, 13, 65, 379, 5, 167, 5, 218),
}
"""[hundredths of a nanosecond; `python tools/row_costs.py`] By the way to run rows, what one takes
of: a stage; a load and a store of a vector (of gathered and deinterleaved rows, of an element); a
light operation, a root and a heavy function on a vector; a reduction's lanes; a light operation, a
root and a heavy function on results. Orders of sums hang on them: they are the same on every
machine."""
MANY_ROWS_ELEMENTS = 1 << 13
"""[elements; row_mean softmax] In all, at least, for kernels that know the length of a row: smaller
calls are served for all lengths at once."""

# -- rows in unrolled vectors (`unrolled_rows`) ------------------------------------------------

UNROLLED_VECTORS, UNROLLED_HEAVY_VECTORS, UNROLLED_COST = 16, 8, 160
"""[vectors, vectors, light operations; no command] Of a row, of one with heavy functions, and work
of one row, at most: all of it is written out, and takes its time to compile."""
UNROLLED_CHUNK = 1 << 14
"""[elements; softmax row_variance] Of one chunk."""

# -- transposed row batches (`row_batches`) ----------------------------------------------------

BATCH_BYTES, SMALL_BATCH_BYTES = 128, 64
"""[bytes; row_variance softmax] Of one value of every row of a batch, and of one where twice as
many rows are too long. What follows from a batch's results waits for all of them: a short time for
so many."""
BATCH_MOST_BYTES = 1 << 15
"""[bytes; row_variance softmax] Of a batch's operands, at most: later stages find them in the first
cache."""
NEAR_ROWS_BYTES, BATCH_FAR_LENGTH = 12 << 20, 64
"""[bytes, elements; row_variance layer_norm] Operands of more, in all, come from memory, where
batches of rows that are longer and met again by later stages take 1.3 to 2 times as long as rows
one by one."""
BATCH_CHUNK, BATCH_JOBS = 1 << 15, 8
"""[elements, batches; row_variance softmax] Of one chunk, at least, and batches that keep many
threads busy."""


# -- rows one by one (`row_reduction`, `row_places`) -------------------------------------------

ROW_UNROLL, COLUMN_UNROLL = ((6, 4), (24, 2)), ((60, 4),)
"""[light operations, vectors; row_mean row_argmax layer_norm] Most work of one element, and vectors
of an iteration."""
RUNNING_REGISTERS = 16
"""[registers; row_mean row_argmax layer_norm] That running values of the vectors of an iteration
may take."""
ROW_BLOCK, NARROW_ROW_BLOCK = 12, 15
"""[vectors; no command] Of doubles that are added plainly before their sum is added with its
rounding error, and of narrower numbers: they have twice the lanes, so that NumPy's sums are less
exact."""
DIVIDED_VECTORS = 2
"""[vectors; row_mean row_argmax layer_norm] Of an iteration, at most, where elements are divided: a
quotient's steps take registers."""
PLACES_BLOCK, PLACES_VECTORS, PLACES_AT_ONCE = 16, 4, 8
"""[iterations, vectors, vectors; row_mean row_argmax layer_norm] Between two looks at what extreme
was found; native vectors of an iteration: a maximum takes as many cycles as this many loads; native
vectors of a row that are in registers at once, at most."""

# -- vectors across rows (`gathered_rows`, `deinterleaved_rows`, `packed_rows`)

GATHERED_LONGEST = 32
"""[elements; no command] Of rows that are gathered, at most: the error of two running sums grows
with them."""
PAIRED_BLOCK, PAIRED_COST = 8, 8
"""[elements, light operations; no command] Of a block, whose halves are added in pairs, and work of
a body, at most, that is repeated for them."""
GATHERED_CHAINS = 4
"""[sums; pairwise_distance row_variance] Of other bodies, where rows have a block of elements."""
GATHERED_LANES = 8
"""[lanes; pairwise_distance row_variance] For which addresses of elements at unknown strides stay
in registers, at most."""
DEINTERLEAVED_OPERANDS = 4
"""[operands; pairwise_distance row_variance] That are deinterleaved, at most."""
PACKED_BYTES, PACKED_LANES, PACKED_OPERANDS = 1 << 16, 64, 4
"""[bytes, lanes, operands; pairwise_distance row_variance] Of one packed operand, at most: a tile
stays in the second cache; columns of one vector, at most; operands that are packed, at most."""
PACKED_OUTER, PACKED_INNER = 16, 4
"""[iterations, columns; pairwise_distance row_variance] A packed operand is met so often, at least,
and has so many rows, at least."""
PACKED_LONGEST_OF_HALF, PACKED_LONGEST_OF_FEW = 48, 128
"""[elements; pairwise_distance row_variance] Of rows, at most, where columns are fewer than half of
`PACKED_COLUMNS`, or fewer than these: longer rows fill vectors by themselves."""
PACKED_STAGED = range(9, 16)
"""[elements; pairwise_distance row_variance] Of rows that only later stages meet again: longer ones
fill a vector by themselves, shorter ones are deinterleaved."""
PACKED_ELEMENTS = 1 << 17
"""[elements; pairwise_distance row_variance] In all, at least: smaller calls are served for all
lengths at once."""
PACKED_CHUNK, PACKED_RESULT, PACKED_JOBS = 1 << 19, 8, 32
"""[elements, elements, chunks; pairwise_distance row_variance] Of one chunk, at least; as many as a
result counts for; chunks that keep many threads busy."""
PACKED_COLUMNS = 64
"""[columns; no command] Enough for whatever is computed at a time; packed columns are cut at
multiples of so many."""
PACKED_SHORT, PACKED_BRIEF = 8, 16
"""[elements; no command] Rows of fewer are added one by one, as NumPy does; rows of fewer are one
block of chains: no more is added in a row than NumPy adds."""
PACKED_CHAINS, PACKED_CHAINED_COST = 4, 8
"""[chains, light operations; pairwise_distance row_variance] Of one block, and work of a body, at
most, whose code is worth repeating for them."""
PACKED_BLOCK, PACKED_DOUBLED, PACKED_UNCHAINED_BLOCK = 8, (32, 64), 2
"""[elements; no command] Of one block, and by the length of a row how often that is doubled: errors
are at most as large as those of NumPy's chains; of one block without chains."""
PACKED_GROUPS = ((4, 2), (2, 2), (4, 1), (2, 1), (1, 4), (1, 2), (1, 1))
"""[iterations, vectors; pairwise_distance row_variance] Outer iterations of one group, and native
vectors beside each other: what registers hold."""
WIDE_REGISTER_BYTES = 64
"""[bytes; no command] Of vectors from which on there are twice as many registers."""

# -- columns (`unrolled_columns`, `column_tiles`, `online_columns`, `flattened_columns`) -------

UNROLLED_LENGTHS, UNROLLED_COLUMN_COST = range(2, 9), 120
"""[elements, light operations; no command] Of columns, and of interleaved rows, whose loop is
unrolled, and work of one, at most: all of it is written out, and takes its time to compile."""
UNROLLED_LIGHT_COST = 16
"""[light operations; column_mean column_variance batch_norm] Work of a column up to which two
vectors of columns are computed at a time."""
UNROLLED_COLUMNS, UNROLLED_COLUMN_ELEMENTS, UNROLLED_COLUMN_CHUNK = 64, 1 << 12, 1 << 13
"""[columns, elements, elements; column_mean column_variance batch_norm] Columns and elements in
all, at least, and of one chunk."""
COLUMN_TILE = 1024
"""[columns; column_mean column_variance batch_norm] Whose results are written down for a last stage
that runs through rows."""
BLOCK_ROWS, ALONE_ROWS = 8, 512
"""[rows; column_mean column_variance batch_norm] Of one block, but where a stage stores whole rows;
and where columns are one vector, whose running value would wait in memory for itself."""
STORED_ROWS, STORED_FEW_ELEMENTS = 4, 1 << 21
"""[rows, elements; column_mean column_variance batch_norm] Of a block that stores whole rows where
there are few elements, which caches hold: what belongs to a column is read once for all of them,
and quotients, which do not wait for memory then, are products with reciprocals. Where there are
more, 4 rows at a time take 1.5 times as long as one row after another."""
TILED_ELEMENTS = 1 << 22
"""[elements; column_mean column_variance batch_norm] With so many chunks of work are whole tiles,
and those are cut into parts, for the memory's sake; with fewer, chunks may be narrower than
tiles."""
TILED_COLUMN_BYTES = 512
"""[bytes; column_mean column_variance batch_norm] That are kept for one column of a tile, at
most."""
TILED_COLUMNS, TILED_BYTES = 1 << 13, 1 << 17
"""[columns, bytes; column_mean column_variance batch_norm] Of a tile that is read once, at most,
and kept for all of them: pieces of rows of 4 KB, a page, are read at two thirds of the speed of
those of 16 KB."""
ONLINE_SAMPLE, ONLINE_LEAST_SAMPLE = 1.5, 8
"""[factor, rows; no command] Rows that references are made of: so many times the root of all, and
at least so many. If one that is far off is among k of n, squares of the others' distances add up to
n/k^2 of its own."""
ONLINE_ROWS, ONLINE_ELEMENTS = 64, 1 << 17
"""[rows, elements; no command] Columns with fewer rows have NumPy's order of operations; fewer
elements are in the first caches."""
FLATTENED_GROUPS = ((16, 64), (63, 16))
"""[columns, rows; column_mean column_variance batch_norm] Columns at most, and how many rows are
flattened into one: groups are whole vectors, a tile at most."""
FLATTENED_COLUMNS = 64
"""[columns; column_mean column_variance batch_norm] As many are met as fast by themselves."""
FLATTENED_COLUMN_ELEMENTS, FLATTENED_LEAST_GROUPS = 1 << 13, 16
"""[elements, groups; column_mean column_variance batch_norm] In all, at least: smaller calls are
served for all lengths at once."""
COLUMNS_DOWN = 2, 3
"""[columns; k_means] Run through one after another, if an operand has one element for all. Sums of
weighted rows of 5,000 and 50,000 take 0.45 and 0.5 of the time with two columns, 0.87 and 0.93 with
three, 1.2 and 2 with four."""

# -- reductions in parts -----------------------------------------------------------------------

REDUCED_CHUNK, REDUCED_COLUMNS = 1 << 14, 256
"""[elements, columns; sum_of_squares column_mean softmax] Of one chunk of work, at least: whole
vectors; short chunks cost more than an uneven end."""
JOBS = 16
"""[chunks; sum_of_squares column_mean softmax] That keep many threads busy; with fewer, rows and
columns are computed in parts."""
PART, PART_BYTES, PARTS = 1 << 16, 1 << 18, 64
"""[elements, bytes, parts; sum_of_squares column_mean softmax] Of one part, at least, fewer
elements where they have so many bytes; parts of one row, at most."""
LONG_PART_BYTES = 1 << 18
"""[bytes; sum_of_squares column_mean softmax] Of operands of one part of a row that is longer than
the cache."""
CUT = 1 << 12
"""[elements; sum_of_squares column_mean softmax] Rows are cut at multiples of so many."""
PART_WORDS, WORD_ELEMENTS = 1024, 256
"""[words, elements; sum_of_squares column_mean softmax] Of partial results that an argument block
may hold; where columns are cut into tiles there may be one for so many elements."""
FEW_WORDS, FEW_WORD_ELEMENTS = 7 << 10, 300
"""[words, elements; sum_of_squares column_mean softmax] Of parts of whole rows, with fewer elements
than tiles want, at most, which the native entry holds; and one for so many elements: each is
written, read and joined."""
STORED_COLUMNS = 1 << 9
"""[columns; sum_of_squares column_mean softmax] That one thread computes where several would share
rows that are stored."""
WAITING_LANES = 8
"""[lanes; sum_of_squares column_mean softmax] Of one running value that is waited for, at most."""
EXACT_LANES, SHUFFLED_BYTES = 4, 16
"""[lanes, bytes; no command] Of a sum that are joined with their rounding errors: the last
additions err most; bytes within which shuffles of single elements are cheap."""
