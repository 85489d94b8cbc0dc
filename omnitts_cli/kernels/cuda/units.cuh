// FINE: the place, in pairs, of a program's pair of units `pair` in a row of units, in the order in which lanes multiply.
__device__ __forceinline__ u32 place_of(u32 program, u32 pair) {
  const u32 part = program % 8, narrow = BLOCKS == 1 && pair >= 8;
  const u32 lane = narrow ? pair - 8 : pair % 8 / 2; // its quarter
  const u32 word = BLOCKS == 2 ? 6 * part + pair / 8 * 2 + pair % 2 : part / 2 * 6 + (narrow ? 4 + part % 2 : part % 2 * 2 + pair % 2);
  return program / 8 * 96 * BLOCKS + word / 4 * 16 + lane * 4 + word % 4;
}
