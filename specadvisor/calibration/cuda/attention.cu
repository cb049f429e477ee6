// Verify attention: GQA-packed, split over the KV length, causal from the bottom right.
//
// batch sequences each bring query_tokens new tokens on a KV cache that already contains them. Packed row r of a KV head is
// (token r / group, head r % group), so all query_tokens * group rows that share a KV head are served by one pass over its
// KV per tile of TILE_ROWS rows, as the engines' packing kernels do. Queries and output are bf16, the KV cache bf16 or E4M3
// (unit scale), contiguous or paged; accumulation is fp32.
//
// Compile-time: ATTENTION_KERNEL, COMBINE_KERNEL (names), HEAD_DIM 64|128|256, ROW_WARPS x KEY_WARPS warps per block
// (TILE_ROWS = 16 * ROW_WARPS), TILE_KEYS keys per shared-memory tile, STAGES >= 2 of the cp.async pipeline, KV_FP8 0|1.
#include "primitives.cuh"

#define THREADS (32 * ROW_WARPS * KEY_WARPS)
#define TILE_ROWS (16 * ROW_WARPS)
#define WARP_KEYS (TILE_KEYS / KEY_WARPS)
#define KEY_BLOCKS (WARP_KEYS / 8)              // 8-key blocks of one warp in one tile
#define DIM_STEPS (HEAD_DIM / 16)
#define KV_BYTES (KV_FP8 ? 1 : 2)
#define ROW_CHUNKS (HEAD_DIM * KV_BYTES / 16)   // 16-byte chunks of one key
#define TILE_BYTES (TILE_KEYS * HEAD_DIM * KV_BYTES)
#define PIPELINE_BYTES (STAGES * 2 * TILE_BYTES)
#define MERGE_BYTES (ROW_WARPS * KEY_WARPS * (16 * HEAD_DIM * 4 + 2 * 16 * 4))
// With 256 dimensions the query fragments (64 registers) and the accumulator (128) do not fit a thread together.
#define QUERY_IN_SHARED (HEAD_DIM > 128)
#define QUERY_STRIDE (HEAD_DIM + 8)             // the 16 extra bytes put the 8 rows of a fragment on different banks
#define QUERY_OFFSET (PIPELINE_BYTES > MERGE_BYTES ? PIPELINE_BYTES : MERGE_BYTES)

static_assert(WARP_KEYS % 16 == 0, "each warp needs a multiple of 16 keys");
static_assert(TILE_KEYS * ROW_CHUNKS % THREADS == 0, "every thread copies the same number of chunks");

struct AttentionParams {
  const u16* q;              // [batch, query_tokens, heads, HEAD_DIM]
  const unsigned char* k;    // contiguous: [batch, capacity, kv_heads, HEAD_DIM]; paged: [pages, page_size, kv_heads, HEAD_DIM]
  const unsigned char* v;
  u16* out;                  // [batch, query_tokens, heads, HEAD_DIM]
  float* partial_out;        // [splits, batch, kv_heads, rows, HEAD_DIM], used when splits > 1
  float* partial_lse;        // [splits, batch, kv_heads, rows], base-2 logarithm
  const int* lengths;        // [batch] keys of each sequence, the new tokens included
  const int* block_table;    // [batch, max_pages], or null for a contiguous cache
  int batch, query_tokens, heads, kv_heads, capacity, page_size, max_pages, splits;
  float scale_log2;          // softmax scale * log2(e)
};

__device__ __forceinline__ long long cache_row(const AttentionParams& p, int b, int key) {
  if (p.block_table) {
    int page = p.block_table[b * p.max_pages + key / p.page_size];
    return (long long)page * p.page_size + key % p.page_size;
  }
  return (long long)b * p.capacity + key;
}

// position of a 16-byte chunk, swizzled so that the 8 rows an ldmatrix reads lie on different banks
__device__ __forceinline__ int swizzled(int row, int chunk) {
  return row * ROW_CHUNKS + (ROW_CHUNKS >= 8 ? chunk ^ (row & 7) : chunk ^ ((row * ROW_CHUNKS / 8) & (ROW_CHUNKS - 1)));
}

// head dimensions of the A and B fragments: element pair `half` (0, 1) of step `step` for lane group `tig`. An E4M3 lane
// reads 4 adjacent bytes, so the contraction runs over the dimensions in that order, for Q as for K.
__device__ __forceinline__ int fragment_dim(int step, int tig, int half) {
  return KV_FP8 ? step * 16 + tig * 4 + half * 2 : step * 16 + tig * 2 + half * 8;
}
// head dimension of element e (0, 1) of accumulator block i; E4M3 blocks hold even and odd dimensions in turn
__device__ __forceinline__ int output_dim(int i, int tig, int e) {
  return KV_FP8 ? (i >> 1) * 16 + (tig * 2 + e) * 2 + (i & 1) : i * 8 + tig * 2 + e;
}

__device__ __forceinline__ void load_tile(const AttentionParams& p, unsigned char* sk, unsigned char* sv, int b, int kv_head,
                                          int first_key, int length, int tid) {
#pragma unroll
  for (int j = 0; j < TILE_KEYS * ROW_CHUNKS / THREADS; ++j) {
    int c = tid + j * THREADS, row = c / ROW_CHUNKS, chunk = c % ROW_CHUNKS;
    bool inside = first_key + row < length;
    long long element = (cache_row(p, b, inside ? first_key + row : 0) * p.kv_heads + kv_head) * HEAD_DIM;
    long long offset = element * KV_BYTES + chunk * 16;
    cp_async16(sk + swizzled(row, chunk) * 16, p.k + offset, inside);
    cp_async16(sv + swizzled(row, chunk) * 16, p.v + offset, inside);
  }
}

// scores of 16 rows against the warp's keys for one step of 16 head dimensions
__device__ __forceinline__ void add_scores(float (&score)[KEY_BLOCKS][4], const u32 (&q)[4], const unsigned char* sk, int step,
                                           int first, int lane) {
#pragma unroll
  for (int j = 0; j < KEY_BLOCKS; j += 2) {
#if KV_FP8
#pragma unroll
    for (int jj = j; jj < j + 2; ++jj) {
      int key = first + jj * 8 + (lane >> 2);
      u32 w = *(const u32*)(sk + swizzled(key, step) * 16 + (lane & 3) * 4);
      mma_bf16(score[jj], q, e4m3_to_bf16x2((w & 0xffu) | ((w & 0xff00u) << 8)),
               e4m3_to_bf16x2(((w >> 16) & 0xffu) | ((w >> 8) & 0xff0000u)));
    }
#else
    int m = lane >> 3, key = first + j * 8 + (m >> 1) * 8 + (lane & 7);
    u32 k[4];
    ldmatrix_x4(k, sk + swizzled(key, step * 2 + (m & 1)) * 16);
    mma_bf16(score[j], q, k[0], k[1]);
    mma_bf16(score[j + 1], q, k[2], k[3]);
#endif
  }
}

// accumulator += probabilities of 16 keys times their values
__device__ __forceinline__ void add_values(float (&acc)[HEAD_DIM / 8][4], const u32 (&prob)[4], const unsigned char* sv, int first,
                                           int lane) {
  int m = lane >> 3, key = first + (m & 1) * 8 + (lane & 7);
#if KV_FP8
#pragma unroll
  for (int d = 0; d < DIM_STEPS; d += 2) {
    u32 v[4];
    ldmatrix_x4_trans(v, sv + swizzled(key, d + (m >> 1)) * 16);
#pragma unroll
    for (int dd = 0; dd < 2; ++dd) {
      u32 lo = v[2 * dd], hi = v[2 * dd + 1];
      mma_bf16(acc[2 * (d + dd)], prob, e4m3_to_bf16x2(lo & 0x00ff00ffu), e4m3_to_bf16x2(hi & 0x00ff00ffu));
      mma_bf16(acc[2 * (d + dd) + 1], prob, e4m3_to_bf16x2((lo >> 8) & 0x00ff00ffu), e4m3_to_bf16x2((hi >> 8) & 0x00ff00ffu));
    }
  }
#else
#pragma unroll
  for (int d = 0; d < DIM_STEPS; ++d) {
    u32 v[4];
    ldmatrix_x4_trans(v, sv + swizzled(key, d * 2 + (m >> 1)) * 16);
    mma_bf16(acc[2 * d], prob, v[0], v[1]);
    mma_bf16(acc[2 * d + 1], prob, v[2], v[3]);
  }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) ATTENTION_KERNEL(AttentionParams p) {
  DYNAMIC_SHARED(shared);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, gid = lane >> 2, tig = lane & 3;
  const int row_warp = warp / KEY_WARPS, key_warp = warp % KEY_WARPS;
  const int split = blockIdx.x, kv_head = blockIdx.y % p.kv_heads, row_tile = blockIdx.y / p.kv_heads, b = blockIdx.z;
  const int group = p.heads / p.kv_heads, rows = p.query_tokens * group, length = p.lengths[b];
  const int first_row = row_tile * TILE_ROWS + row_warp * 16;

#if QUERY_IN_SHARED
  u16* sq = (u16*)(shared + QUERY_OFFSET);
  for (int x = tid; x < TILE_ROWS * (HEAD_DIM / 2); x += THREADS) {
    int tr = x / (HEAD_DIM / 2), d = (x % (HEAD_DIM / 2)) * 2, r = row_tile * TILE_ROWS + tr;
    const u16* source = p.q + (((long long)b * p.query_tokens + r / group) * p.heads + kv_head * group + r % group) * HEAD_DIM + d;
    *(u32*)(sq + tr * QUERY_STRIDE + d) = r < rows ? *(const u32*)source : 0u;
  }
#else
  u32 query[DIM_STEPS][4];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int r = first_row + gid + 8 * h;
    bool inside = r < rows;
    int token = inside ? r / group : 0, head = kv_head * group + (inside ? r % group : 0);
    const u16* source = p.q + (((long long)b * p.query_tokens + token) * p.heads + head) * HEAD_DIM;
#pragma unroll
    for (int s = 0; s < DIM_STEPS; ++s) {
      query[s][h] = inside ? *(const u32*)(source + fragment_dim(s, tig, 0)) : 0u;
      query[s][2 + h] = inside ? *(const u32*)(source + fragment_dim(s, tig, 1)) : 0u;
    }
  }
#endif
  // last key each of this thread's two rows may see; padding rows see everything and are never stored
  int last_key[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int r = first_row + gid + 8 * h;
    last_key[h] = r < rows ? length - p.query_tokens + r / group : length - 1;
  }

  float acc[HEAD_DIM / 8][4], row_max[2] = {NEG_INF, NEG_INF}, row_sum[2] = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 8; ++i) { acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.f; }

  const int tiles = (length + TILE_KEYS - 1) / TILE_KEYS, per_split = (tiles + p.splits - 1) / p.splits;
  const int begin = split * per_split, end = begin + per_split < tiles ? begin + per_split : tiles;

#define SHARED_K(stage) (shared + (stage) * 2 * TILE_BYTES)
#define SHARED_V(stage) (shared + (stage) * 2 * TILE_BYTES + TILE_BYTES)
  for (int s = 0; s < STAGES - 1; ++s) {
    if (begin + s < end) load_tile(p, SHARED_K(s), SHARED_V(s), b, kv_head, (begin + s) * TILE_KEYS, length, tid);
    cp_async_commit();
  }
  for (int t = begin; t < end; ++t) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // tile t landed for everyone, and everyone is done with the stage that is refilled next
    {
      int next = t + STAGES - 1, stage = (next - begin) % STAGES;
      if (next < end) load_tile(p, SHARED_K(stage), SHARED_V(stage), b, kv_head, next * TILE_KEYS, length, tid);
      cp_async_commit();  // also when empty: the wait above counts groups
    }
    const unsigned char* sk = SHARED_K((t - begin) % STAGES);
    const unsigned char* sv = SHARED_V((t - begin) % STAGES);
    const int first = key_warp * WARP_KEYS;

    float score[KEY_BLOCKS][4];
#pragma unroll
    for (int j = 0; j < KEY_BLOCKS; ++j) { score[j][0] = score[j][1] = score[j][2] = score[j][3] = 0.f; }
#pragma unroll
    for (int s = 0; s < DIM_STEPS; ++s) {
#if QUERY_IN_SHARED
      const u16* q0 = sq + (row_warp * 16 + gid) * QUERY_STRIDE;
      const u16* q1 = q0 + 8 * QUERY_STRIDE;
      u32 q[4] = {*(const u32*)(q0 + fragment_dim(s, tig, 0)), *(const u32*)(q1 + fragment_dim(s, tig, 0)),
                  *(const u32*)(q0 + fragment_dim(s, tig, 1)), *(const u32*)(q1 + fragment_dim(s, tig, 1))};
      add_scores(score, q, sk, s, first, lane);
#else
      add_scores(score, query[s], sk, s, first, lane);
#endif
    }
    if ((t + 1) * TILE_KEYS > length - p.query_tokens) {  // only the tail needs the causal and length mask
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          int key = t * TILE_KEYS + first + j * 8 + tig * 2 + (e & 1);
          if (key > last_key[e >> 1]) score[j][e] = NEG_INF;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float seen = NEG_INF;
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; ++j) seen = fmaxf(seen, fmaxf(score[j][2 * h], score[j][2 * h + 1]));
      float new_max = fmaxf(row_max[h], quad_max(seen) * p.scale_log2);
      float shift = new_max == NEG_INF ? 0.f : new_max;  // -inf - -inf would be NaN
      float rescale = fast_exp2(row_max[h] - shift), sum = 0.f;
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float probability = fast_exp2(score[j][2 * h + e] * p.scale_log2 - shift);
          score[j][2 * h + e] = probability;
          sum += probability;
        }
      row_sum[h] = row_sum[h] * rescale + sum;  // this lane's share
      row_max[h] = new_max;
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 8; ++i) { acc[i][2 * h] *= rescale; acc[i][2 * h + 1] *= rescale; }
    }
#pragma unroll
    for (int j = 0; j < KEY_BLOCKS; j += 2) {
      u32 prob[4] = {pack_bf16(score[j][0], score[j][1]), pack_bf16(score[j][2], score[j][3]),
                     pack_bf16(score[j + 1][0], score[j + 1][1]), pack_bf16(score[j + 1][2], score[j + 1][3])};
      add_values(acc, prob, sv, first + j * 8, lane);
    }
  }
  cp_async_wait<0>();
  __syncthreads();  // the pipeline's memory is free: the warps that shared a row tile merge their key slices in it

  float* merge_out = (float*)shared;                                  // [warps][16][HEAD_DIM]
  float* merge_max = merge_out + ROW_WARPS * KEY_WARPS * 16 * HEAD_DIM;  // [warps][16]
  float* merge_sum = merge_max + ROW_WARPS * KEY_WARPS * 16;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = quad_sum(row_sum[h]);
    int r = warp * 16 + gid + 8 * h;
    if (tig == 0) { merge_max[r] = row_max[h]; merge_sum[r] = sum; }
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; ++i) {
      merge_out[r * HEAD_DIM + output_dim(i, tig, 0)] = acc[i][2 * h];
      merge_out[r * HEAD_DIM + output_dim(i, tig, 1)] = acc[i][2 * h + 1];
    }
  }
  __syncthreads();
  for (int x = tid; x < TILE_ROWS * (HEAD_DIM / 2); x += THREADS) {
    int tr = x / (HEAD_DIM / 2), d = (x % (HEAD_DIM / 2)) * 2, r = row_tile * TILE_ROWS + tr;
    if (r >= rows) continue;
    int first_slot = (tr / 16) * KEY_WARPS * 16 + tr % 16;
    float top = NEG_INF;
    for (int w = 0; w < KEY_WARPS; ++w) top = fmaxf(top, merge_max[first_slot + w * 16]);
    float shift = top == NEG_INF ? 0.f : top, total = 0.f, o0 = 0.f, o1 = 0.f;
    for (int w = 0; w < KEY_WARPS; ++w) {
      int slot = first_slot + w * 16;
      float weight = fast_exp2(merge_max[slot] - shift);
      total += weight * merge_sum[slot];
      o0 += weight * merge_out[slot * HEAD_DIM + d];
      o1 += weight * merge_out[slot * HEAD_DIM + d + 1];
    }
    float inverse = total > 0.f ? 1.f / total : 0.f;
    if (p.splits == 1) {
      long long row = ((long long)b * p.query_tokens + r / group) * p.heads + kv_head * group + r % group;
      *(u32*)(p.out + row * HEAD_DIM + d) = pack_bf16(o0 * inverse, o1 * inverse);
    } else {  // a split without tiles stores a neutral partial: zero with log-sum-exp -inf
      long long row = (((long long)split * p.batch + b) * p.kv_heads + kv_head) * rows + r;
      p.partial_out[row * HEAD_DIM + d] = o0 * inverse;
      p.partial_out[row * HEAD_DIM + d + 1] = o1 * inverse;
      if (d == 0) p.partial_lse[row] = total > 0.f ? top + fast_log2(total) : NEG_INF;
    }
  }
}

// merges the splits: one block of HEAD_DIM / 2 threads per packed row, two head dimensions per thread
extern "C" __global__ void __launch_bounds__(HEAD_DIM / 2) COMBINE_KERNEL(AttentionParams p) {
  const int group = p.heads / p.kv_heads, rows = p.query_tokens * group;
  const int r = blockIdx.x, kv_head = blockIdx.y, b = blockIdx.z, d = threadIdx.x * 2;
  const long long stride = (long long)p.batch * p.kv_heads * rows, row = ((long long)b * p.kv_heads + kv_head) * rows + r;
  float top = NEG_INF;
  for (int s = 0; s < p.splits; ++s) top = fmaxf(top, p.partial_lse[s * stride + row]);
  float shift = top == NEG_INF ? 0.f : top, total = 0.f, o0 = 0.f, o1 = 0.f;
  for (int s = 0; s < p.splits; ++s) {
    float weight = fast_exp2(p.partial_lse[s * stride + row] - shift);
    total += weight;
    o0 += weight * p.partial_out[(s * stride + row) * HEAD_DIM + d];
    o1 += weight * p.partial_out[(s * stride + row) * HEAD_DIM + d + 1];
  }
  float inverse = total > 0.f ? 1.f / total : 0.f;
  long long out = ((long long)b * p.query_tokens + r / group) * p.heads + kv_head * group + r % group;
  *(u32*)(p.out + out * HEAD_DIM + d) = pack_bf16(o0 * inverse, o1 * inverse);
}
