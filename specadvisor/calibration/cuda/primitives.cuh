// The only CUDA the kernels of this folder use: inline-PTX primitives, no #include, so that NVRTC alone compiles them.
// A host build for numeric tests (-DHOST_EMULATION) takes the same names from emulation.h instead.
#pragma once
#ifdef HOST_EMULATION
#include "emulation.h"
#else
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define NEG_INF (__int_as_float(0xff800000))

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// 16 bytes global -> shared; with pred false nothing is read and the 16 bytes become zero
__device__ __forceinline__ void cp_async16(void* dst, const void* src, bool pred) {
  int source_bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
               :: "r"(shared_address(dst)), "l"(src), "r"(source_bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" :: "n"(PENDING) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
// c[16x8] += a[16x16] b[16x8], bf16 in, fp32 accumulation
__device__ __forceinline__ void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// lo becomes the low 16 bits: the element with the smaller column index
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
// two bf16 products; sm_80 has no bf16 multiply, so -0 is added
__device__ __forceinline__ u32 multiply_bf16x2(u32 a, u32 b) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
  return r;
}
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
#endif

// over the four lanes that hold one row of an accumulator fragment
__device__ __forceinline__ float quad_max(float v) {
  v = fmaxf(v, shuffle_xor(v, 1));
  return fmaxf(v, shuffle_xor(v, 2));
}
__device__ __forceinline__ float quad_sum(float v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}
// Two E4M3 values in bytes 0 and 2 -> two bf16. The bits land in bf16's fields with the exponent bias of E4M3 (7 instead
// of 127), so one exact multiplication by 2^120 finishes it, subnormals included; needs no sm_89 conversion instruction.
__device__ __forceinline__ u32 e4m3_to_bf16x2(u32 spread) {
  u32 bits = ((spread & 0x00800080u) << 8) | ((spread & 0x007f007fu) << 4);
  return multiply_bf16x2(bits, 0x7b807b80u);
}
