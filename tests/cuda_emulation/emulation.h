// Host emulation of the CUDA subset that the kernels use, for a true numeric check without a GPU.
//
// One fiber per CUDA thread; blocks run one after another. __syncthreads and every warp-wide operation (shuffle, ldmatrix,
// mma) are rendezvous points, and a run in which no fiber can go on fails (diverged barrier). Each warp runs as far ahead as it
// can, in an order that EMULATION_SEED shuffles: the most hostile schedule for a missing barrier. cp.async bytes land only when
// the issuing thread waits for their group; shared memory starts as NaN.
// Blind spots: the inline-PTX strings themselves, the memory model inside a warp, registers, speed.
#pragma once
#include <setjmp.h>
#include <ucontext.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(name) unsigned char* name = emulation::state.shared
#define NEG_INF (-INFINITY)

struct Dim3 { unsigned x, y, z; };
static Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
const int STACK_BYTES = 48 << 10;
struct Copy { unsigned char* dst; unsigned char data[16]; };
struct Fiber {
  jmp_buf resume;
  std::vector<unsigned char> stack;
  bool done = false, started = false;
  std::vector<std::vector<Copy>> groups;  // committed, oldest first
  std::vector<Copy> open;
};
struct Warp { int arrived = 0; long generation = 0; unsigned char slot[2][32][32]; };
struct State {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned char> storage;
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;
  int current = 0, threads = 0, arrived = 0;
  long generation = 0, progress = 0;
  jmp_buf scheduler, failed;
  ucontext_t start;
  void (*body)(void**) = nullptr;
  void** arguments = nullptr;
};
static State state;
static const char* failure = "";

[[noreturn]] inline void fail(const char* what) { failure = what; longjmp(state.failed, 1); }
inline void yield() {
  Fiber& f = state.fibers[state.current];
  if (!_setjmp(f.resume)) _longjmp(state.scheduler, 1);
}
inline void block_barrier() {
  long g = state.generation;
  state.progress++;
  if (++state.arrived == state.threads) { state.arrived = 0; state.generation++; }
  else while (state.generation == g) yield();
}
// every lane deposits n bytes; returns the 32 deposits
inline unsigned char (*warp_exchange(const void* in, size_t n))[32] {
  Warp& w = state.warps[state.current / 32];
  long g = w.generation;
  memcpy(w.slot[g & 1][state.current % 32], in, n);
  state.progress++;
  if (++w.arrived == 32) { w.arrived = 0; w.generation++; }
  else while (w.generation == g) yield();
  return w.slot[g & 1];
}
inline void fiber_main() {
  state.body(state.arguments);
  state.fibers[state.current].done = true;
  state.progress++;
  _longjmp(state.scheduler, 1);
}
inline void resume(int thread) {
  Fiber& f = state.fibers[thread];
  state.current = thread;
  threadIdx = {(unsigned)thread, 0, 0};
  if (_setjmp(state.scheduler)) return;
  if (f.started) _longjmp(f.resume, 1);
  f.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = f.stack.data();
  context.uc_stack.ss_size = f.stack.size();
  context.uc_link = nullptr;
  makecontext(&context, fiber_main, 0);
  setcontext(&context);
}
inline u32 random_bits() {
  static const char* seed = getenv("EMULATION_SEED");
  static u32 x = seed ? (u32)atoi(seed) * 2654435761u + 1u : 12345u;
  return x = x * 1664525u + 1013904223u;
}
inline void run_block() {
  memset(state.shared, 0xFF, state.shared_bytes);
  for (auto& w : state.warps) { w.arrived = 0; w.generation = 0; }
  for (auto& f : state.fibers) { f.done = f.started = false; f.groups.clear(); f.open.clear(); }
  state.arrived = 0;
  state.generation = 0;
  const int warps = state.threads / 32;
  std::vector<int> order(warps);
  for (int i = 0; i < warps; ++i) order[i] = i;
  for (int left = state.threads; left;) {
    long before = state.progress;
    for (int i = warps - 1; i > 0; --i) { int j = (random_bits() >> 8) % (i + 1), t = order[i]; order[i] = order[j]; order[j] = t; }
    for (int w : order)
      for (long seen = -1; seen != state.progress;) {
        seen = state.progress;
        for (int t = w * 32; t < w * 32 + 32; ++t) {
          if (state.fibers[t].done) continue;
          resume(t);
          if (state.fibers[t].done) left--;
        }
      }
    if (left && state.progress == before) fail("no progress: diverged barrier or warp operation");
  }
}
// 0, or -2 with `failure` set
inline int launch(Dim3 grid, unsigned threads, size_t shared_bytes, void (*body)(void**), void** arguments) {
  gridDim = grid;
  blockDim = {threads, 1, 1};
  state.threads = threads;
  state.body = body;
  state.arguments = arguments;
  state.shared_bytes = shared_bytes;
  state.storage.resize(shared_bytes + 128);
  state.shared = state.storage.data() + (128 - (uintptr_t)state.storage.data() % 128) % 128;
  state.fibers.resize(threads);
  state.warps.resize(threads / 32);
  for (auto& f : state.fibers) f.stack.resize(STACK_BYTES);
  if (_setjmp(state.failed)) return -2;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) { blockIdx = {x, y, z}; run_block(); }
  return 0;
}
inline float from_bf16(u16 v) { u32 x = (u32)v << 16; float f; memcpy(&f, &x, 4); return f; }
inline u16 to_bf16(float f) {
  u32 x;
  memcpy(&x, &f, 4);
  if ((x & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (u16)((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
}
inline void check_shared(const void* p) {
  const unsigned char* c = (const unsigned char*)p;
  if (c < state.shared || c + 16 > state.shared + state.shared_bytes) fail("shared-memory access out of bounds");
  if ((size_t)(c - state.shared) % 16) fail("shared-memory address not 16-byte aligned");
}
}  // namespace emulation

inline void __syncthreads() { emulation::block_barrier(); }
inline void cp_async16(void* dst, const void* src, bool pred) {
  emulation::check_shared(dst);
  if ((uintptr_t)src % 16) emulation::fail("cp.async source not 16-byte aligned");
  emulation::Copy c;
  c.dst = (unsigned char*)dst;
  if (pred) memcpy(c.data, src, 16); else memset(c.data, 0, 16);
  emulation::state.fibers[emulation::state.current].open.push_back(c);
}
inline void cp_async_commit() {
  auto& f = emulation::state.fibers[emulation::state.current];
  f.groups.push_back(f.open);
  f.open.clear();
}
template <int PENDING> inline void cp_async_wait() {
  auto& f = emulation::state.fibers[emulation::state.current];
  while ((int)f.groups.size() > PENDING) {
    for (auto& c : f.groups.front()) memcpy(c.dst, c.data, 16);
    f.groups.erase(f.groups.begin());
  }
}
inline void load_matrices(u32 (&r)[4], const void* p, bool transposed) {
  emulation::check_shared(p);
  auto rows = emulation::warp_exchange(&p, sizeof p);
  int lane = emulation::state.current % 32;
  for (int m = 0; m < 4; ++m) {
    u16 e[2];
    for (int i = 0; i < 2; ++i) {
      int row = transposed ? (lane % 4) * 2 + i : lane / 4, column = transposed ? lane / 4 : (lane % 4) * 2 + i;
      const u16* address;
      memcpy(&address, rows[m * 8 + row], sizeof address);
      e[i] = address[column];
    }
    r[m] = (u32)e[0] | (u32)e[1] << 16;
  }
  emulation::warp_exchange(&p, 1);  // every lane has read before any may overwrite shared memory
}
inline void ldmatrix_x4(u32 (&r)[4], const void* p) { load_matrices(r, p, false); }
inline void ldmatrix_x4_trans(u32 (&r)[4], const void* p) { load_matrices(r, p, true); }
// fragment layout of the PTX manual, mma.m16n8k16: a0 (g, 2t) a1 (g+8, 2t) a2 (g, 2t+8) a3 (g+8, 2t+8); b0 (2t, g) b1 (2t+8, g)
inline void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u32 in[6] = {a[0], a[1], a[2], a[3], b0, b1};
  auto lanes = emulation::warp_exchange(in, sizeof in);
  int lane = emulation::state.current % 32;
  for (int half = 0; half < 2; ++half) {
    float row[16];
    for (int k = 0; k < 16; k += 2) {
      u32 v;
      memcpy(&v, lanes[lane / 4 * 4 + (k % 8) / 2] + 4 * (half + 2 * (k / 8)), 4);
      row[k] = emulation::from_bf16((u16)v);
      row[k + 1] = emulation::from_bf16((u16)(v >> 16));
    }
    for (int e = 0; e < 2; ++e) {
      int n = lane % 4 * 2 + e;
      float sum = c[2 * half + e];
      for (int k = 0; k < 16; k += 2) {
        u32 v;
        memcpy(&v, lanes[n * 4 + (k % 8) / 2] + 16 + 4 * (k / 8), 4);
        sum += row[k] * emulation::from_bf16((u16)v);
        sum += row[k + 1] * emulation::from_bf16((u16)(v >> 16));
      }
      c[2 * half + e] = sum;
    }
  }
}
inline u32 pack_bf16(float lo, float hi) { return (u32)emulation::to_bf16(lo) | (u32)emulation::to_bf16(hi) << 16; }
inline u32 multiply_bf16x2(u32 a, u32 b) {
  return pack_bf16(emulation::from_bf16((u16)a) * emulation::from_bf16((u16)b),
                   emulation::from_bf16((u16)(a >> 16)) * emulation::from_bf16((u16)(b >> 16)));
}
inline float fast_exp2(float x) { return exp2f(x); }
inline float fast_log2(float x) { return log2f(x); }
inline float shuffle_xor(float v, int mask) {
  auto lanes = emulation::warp_exchange(&v, 4);
  float r;
  memcpy(&r, lanes[(emulation::state.current % 32) ^ mask], 4);
  return r;
}
