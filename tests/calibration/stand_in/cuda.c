/* A stand-in libcuda.so.1 for tests without a GPU. It is not a GPU: device memory is host memory, memory kernels are
 * imitated here, attention kernels are the emulated ones in $STAND_IN_KERNELS/<name>.so, and times come from a formula.
 * Numbers are computed by launches on the stream; a graph replay only moves the clock, so that timing loops are cheap.
 *
 * Build: gcc -shared -fPIC -O1 -Wl,-soname,libcuda.so.1 -o libcuda.so.1 cuda.c -ldl -lm, and put its folder on LD_LIBRARY_PATH.
 * STAND_IN_CC=90           compute capability      STAND_IN_DEVICES=1   number of GPUs
 * STAND_IN_FAIL=cuMemAlloc:2[:n]  that call answers 2 (from its n-th time on)
 * STAND_IN_SLOW=1.3        times grow by this factor while the run goes on (drift)
 * STAND_IN_MEMORY_KHZ=0    the driver hides the memory clock
 * STAND_IN_BYTES_PER_S     memory bandwidth of the formula (4e12)   STAND_IN_SLEEP_MS  real time per graph replay
 * STAND_IN_FREE_BYTES=2e10 free memory; more cannot be allocated       STAND_IN_DRIVER=13000 CUDA version of the driver
 * STAND_IN_FAULT=name[:n]  the n-th launch of that kernel faults: as on a GPU, the next calls answer 700, not that launch
 * It refuses what a driver refuses: calls without a context in that thread, freed or foreign handles, misaligned vectors, more
 * shared memory than was asked for beforehand or than the architecture has, and what a capture forbids. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int R;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900 };
const int specadvisor_stand_in = 1;

static const char *setting(const char *name, const char *otherwise) { const char *e = getenv(name); return e ? e : otherwise; }
static double number(const char *name, double otherwise) { const char *e = getenv(name); return e ? atof(e) : otherwise; }
static R injected(const char *call) {
  static int calls;
  const char *e = getenv("STAND_IN_FAIL");
  size_t n = strlen(call);
  if (!e || strncmp(e, call, n) || e[n] != ':') return OK;
  const char *from = strchr(e + n + 1, ':');
  return ++calls >= (from ? atoi(from + 1) : 1) ? atoi(e + n + 1) : OK;
}
static __thread void *current;
static R sticky;
static int capturing;
#define ENTER(call) do { R r_ = injected(call); if (r_) return r_; } while (0)
#define WORK(call) do { ENTER(call); if (!current) return INVALID_CONTEXT; if (sticky) return sticky; } while (0)
#define UNCAPTURED(call) do { WORK(call); if (capturing) return CAPTURE_UNSUPPORTED; } while (0)
/* every handle begins with its kind, which is cleared when it is destroyed */
enum { EVENT = 0xE0E0, GRAPH = 0x6A6A, EXECUTABLE = 0xEEC5, FUNCTION = 0xF0F0, ALLOCATION = 0xA110C };
static int is(void *handle, int kind) { return handle && *(int *)handle == kind; }
static int capability(void) { return atoi(setting("STAND_IN_CC", "90")); }
static int block_shared(void) { int cc = capability(); return (cc == 80 || cc == 87 ? 163 : cc < 90 || cc >= 120 ? 99 : 227) << 10; }

static int initialised;
static double clock_us;
static long replays;
static const double L2_BYTES = 50 << 20, SMS = 132;
static double bytes_per_s(void) { return number("STAND_IN_BYTES_PER_S", 4e12); }
static void advance(double us) {
  double slow = number("STAND_IN_SLOW", 1.0);
  double jitter = 1.0 + 0.002 * sin(replays * 1.7);
  clock_us += us * jitter * pow(slow, fmin(1.0, replays / 200.0));
}

R cuInit(unsigned f) { ENTER("cuInit"); if (!atoi(setting("STAND_IN_DEVICES", "1"))) return NO_DEVICE; initialised = 1; return OK; }
R cuDriverGetVersion(int *v) { *v = atoi(setting("STAND_IN_DRIVER", "13000")); return OK; }
R cuDeviceGetCount(int *n) { *n = atoi(setting("STAND_IN_DEVICES", "1")); return initialised ? OK : NOT_INITIALIZED; }
R cuDeviceGet(int *d, int i) { *d = i; return i == 0 ? OK : 101; }
R cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "%s", setting("STAND_IN_NAME", "NVIDIA H200")); return OK; }
R cuDeviceTotalMem(size_t *n, int d) { *n = 143771ull << 20; return OK; }
static size_t allocated;
static size_t free_bytes(void) { size_t all = (size_t)number("STAND_IN_FREE_BYTES", 2e10); return all > allocated ? all - allocated : 0; }
R cuMemGetInfo(size_t *free_, size_t *total) { WORK("cuMemGetInfo"); *free_ = free_bytes(); *total = 143771ull << 20; return OK; }
R cuDeviceGetUuid(void *u, int d) { memset(u, 0xAB, 16); return OK; }
R cuDeviceGetAttribute(int *v, int a, int d) {
  int cc = capability();
  switch (a) {
    case 75: *v = cc / 10; break;
    case 76: *v = cc % 10; break;
    case 16: *v = (int)SMS; break;
    case 38: *v = (int)L2_BYTES; break;
    case 37: *v = 6144; break;
    case 36: *v = atoi(setting("STAND_IN_MEMORY_KHZ", "3201000")); break;
    case 13: *v = 1980000; break;
    case 81: *v = block_shared() + (1 << 10); break;
    case 97: *v = block_shared(); break;
    default: *v = 0;
  }
  return OK;
}
R cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)0x1000; return OK; }
R cuDevicePrimaryCtxRelease(int d) { return OK; }
R cuCtxSetCurrent(void *c) { current = c; return OK; }
R cuCtxGetCurrent(void **c) { *c = current; return OK; }
R cuCtxGetDevice(int *d) { *d = 0; return current ? OK : INVALID_CONTEXT; }
R cuCtxSynchronize(void) { UNCAPTURED("cuCtxSynchronize"); return OK; }

/* lazily committed, so that gigabytes cost nothing; kind and size lie in a page in front */
typedef struct { int kind; size_t size; } Allocation;
R cuMemAlloc(uint64_t *p, size_t n) {
  UNCAPTURED("cuMemAlloc");
  if (!n) return INVALID;
  if (n > free_bytes()) return OUT_OF_MEMORY;
  char *q = mmap(0, n + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (q == MAP_FAILED) return OUT_OF_MEMORY;
  *(Allocation *)q = (Allocation){ALLOCATION, n};
  allocated += n;
  *p = (uint64_t)(q + 4096);
  return OK;
}
R cuMemFree(uint64_t p) {
  UNCAPTURED("cuMemFree");
  Allocation *a = (Allocation *)(p - 4096);
  if (!p || p % 4096 || !is(a, ALLOCATION)) return INVALID;
  allocated -= a->size;
  return munmap(a, a->size + 4096) ? INVALID : OK;
}
static const size_t COMPUTED_BYTES = 4 << 20;
R cuMemcpyHtoD(uint64_t d, const void *s, size_t n) { UNCAPTURED("cuMemcpyHtoD"); if (!d || !s) return INVALID; memcpy((void *)d, s, n); return OK; }
R cuMemcpyDtoH(void *d, uint64_t s, size_t n) { UNCAPTURED("cuMemcpyDtoH"); if (!d || !s) return INVALID; memcpy(d, (void *)s, n); return OK; }
R cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *st) { WORK("cuMemsetD8Async"); if (!d) return INVALID; if (!capturing && n <= COMPUTED_BYTES) memset((void *)d, v, n); return OK; }
R cuStreamCreate(void **s, unsigned f) { *s = (void *)0x2000; return OK; }
R cuStreamDestroy(void *s) { return OK; }
R cuStreamSynchronize(void *s) { return OK; }

typedef struct { int kind, recorded; double at; } Event;
R cuEventCreate(void **e, unsigned f) { WORK("cuEventCreate"); Event *x = calloc(1, sizeof *x); x->kind = EVENT; *e = x; return OK; }
R cuEventDestroy(void *e) { if (!is(e, EVENT)) return INVALID_HANDLE; *(int *)e = 0; return OK; }
R cuEventRecord(void *e, void *s) { WORK("cuEventRecord"); if (!is(e, EVENT)) return INVALID_HANDLE; ((Event *)e)->recorded = 1; ((Event *)e)->at = clock_us; return OK; }
R cuEventSynchronize(void *e) { UNCAPTURED("cuEventSynchronize"); return is(e, EVENT) ? OK : INVALID_HANDLE; }
R cuEventElapsedTime(float *ms, void *a, void *b) {
  Event *x = a, *y = b;
  if (!is(a, EVENT) || !is(b, EVENT) || !x->recorded || !y->recorded) return INVALID_HANDLE;
  *ms = (float)((y->at - x->at) / 1000.0);
  return OK;
}

typedef int (*Launch)(const char *, unsigned, unsigned, unsigned, unsigned, size_t, void **);
typedef struct { int kind; char name[80]; Launch launch; int shared; } Function;
R cuModuleLoadData(void **m, const void *image) {
  UNCAPTURED("cuModuleLoadData");
  if (memcmp(image, "\177ELF", 4)) return 200; /* a CUBIN is an ELF file */
  *m = (void *)0x5000;
  return OK;
}
R cuModuleUnload(void *m) { return OK; }
R cuModuleGetFunction(void **f, void *m, const char *name) {
  Function *x = calloc(1, sizeof *x);
  x->kind = FUNCTION;
  x->shared = 48 << 10;
  snprintf(x->name, sizeof x->name, "%s", name);
  if (!strncmp(name, "attention", 9)) {
    char path[4096], base[80];
    snprintf(base, sizeof base, "%s", name);
    char *tail = strstr(base, "_combine");
    if (tail) *tail = 0;
    snprintf(path, sizeof path, "%s/%s.so", setting("STAND_IN_KERNELS", "."), base);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) { fprintf(stderr, "stand-in: %s\n", dlerror()); return NOT_FOUND; }
    *(void **)&x->launch = dlsym(library, "emulated_launch");
  }
  *f = x;
  return OK;
}
R cuFuncSetAttribute(void *f, int a, int v) {
  if (!is(f, FUNCTION)) return INVALID_HANDLE;
  if (a != 8 || v > block_shared()) return INVALID;
  ((Function *)f)->shared = v;
  return OK;
}
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int t, size_t s) {
  if (!is(f, FUNCTION) || t < 1 || t > 1024) return INVALID;
  *n = s > ((Function *)f)->shared ? 0 : s ? (int)((block_shared() + 1024) / (s + 1024)) : 8;
  return OK;
}

static uint32_t mixed(uint32_t x) { x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16; }
static uint32_t bf16(float f) { uint32_t u; memcpy(&u, &f, 4); return (u + 0x7fff + ((u >> 16) & 1)) >> 16; }
typedef struct { uint64_t q, k, v, out, partial_out, partial_lse, lengths, table; int batch, query_tokens, heads, kv_heads, capacity, page, pages, splits; float scale; } Attention;

/* microseconds, and the effect if it is small enough to compute */
static double run(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned shared, void **a, int compute, R *result) {
  double bw = bytes_per_s() / 1e6;
#define A(i, T) (*(T *)a[i])
  if (!strcmp(f->name, "copy_vectors")) {
    uint64_t n = A(2, uint64_t) * 16;
    if ((A(0, uint64_t) | A(1, uint64_t)) % 16) sticky = ILLEGAL_ADDRESS;
    if (compute && n <= COMPUTED_BYTES) memcpy((void *)A(0, uint64_t), (void *)A(1, uint64_t), n);
    return 2.0 + 2.0 * n / bw;
  }
  if (!strcmp(f->name, "read_vectors")) {
    uint64_t n = A(2, uint64_t) * 16;
    if (compute && A(3, uint32_t) && n <= COMPUTED_BYTES) {
      uint32_t h = 0, *s = (uint32_t *)A(1, uint64_t), *o = (uint32_t *)A(0, uint64_t);
      for (uint64_t i = 0; i < n / 4; ++i) h ^= s[i];
      memset(o, 0, (size_t)gx * bx * 4);
      o[0] = h;
    }
    return 2.0 + n / (n < 0.8 * L2_BYTES ? 2.5 * bw : bw);
  }
  if (!strcmp(f->name, "fill_bf16") || !strcmp(f->name, "fill_masked")) {
    uint64_t words = A(1, uint64_t);
    uint32_t seed = A(2, uint32_t), *d = (uint32_t *)A(0, uint64_t);
    if (compute && words * 4 <= COMPUTED_BYTES)
      for (uint64_t i = 0; i < words; ++i) {
        uint32_t x = mixed((uint32_t)i * 2 + seed), y = mixed((uint32_t)i * 2 + 1 + seed * 31);
        if (f->name[5] == 'm') d[i] = x & A(3, uint32_t);
        else d[i] = bf16((int)x / 2147483648.f * A(3, float)) | bf16((int)y / 2147483648.f * A(3, float)) << 16;
      }
    return 1.0;
  }
  if (!strcmp(f->name, "clock_probe")) {
    uint64_t *o = (uint64_t *)A(0, uint64_t);
    for (unsigned i = 0; i < gx; ++i) { o[2 * i] = 1980000; o[2 * i + 1] = 1000000; }
    return 2000.0;
  }
  if (f->launch && !strstr(f->name, "_combine")) {
    Attention *p = a[0];
    int dim = atoi(f->name + 11), rows = atoi(strstr(f->name, "_r") + 2), width = strstr(f->name, "fp8") ? 1 : 2;
    double tiles = ceil((double)p->query_tokens * p->heads / p->kv_heads / rows);
    double bytes = (double)p->batch * *(int *)p->lengths * p->kv_heads * dim * 2 * width;
    double blocks = p->batch * p->kv_heads * tiles * p->splits, memory = bytes * (1 + 0.3 * (tiles - 1)) / (0.85 * bw);
    double compute_us = 2 * bytes / width * tiles * rows / 500e6, few = fmax(1.0, SMS / blocks);
    if (compute) { if (f->launch(f->name, gx, gy, gz, bx, shared, a)) *result = LAUNCH_FAILED; }
    return 5.0 + memory * few + compute_us;
  }
  if (f->launch) {
    if (compute && f->launch(f->name, gx, gy, gz, bx, shared, a)) *result = LAUNCH_FAILED;
    return 1.5;
  }
  return 1.3;
}
static double captured_us;
R cuLaunchKernel(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *st, void **args, void **extra) {
  WORK("cuLaunchKernel");
  if (!is(fn, FUNCTION)) return INVALID_HANDLE;
  if (shared > ((Function *)fn)->shared) return INVALID;
  if (!gx || !gy || !gz || !bx || gy > 65535 || gz > 65535 || bx > 1024) return INVALID;
  R result = OK;
  /* large caches hold nothing here: only the small ones of the correctness checks are computed */
  Function *f = fn;
  int small = !f->launch || ((Attention *)args[0])->capacity <= 512;
  const char *fault = getenv("STAND_IN_FAULT"), *count = fault ? strchr(fault, ':') : 0;
  static int faults;
  if (fault && !strncmp(f->name, fault, count ? (size_t)(count - fault) : strlen(fault)) && ++faults >= (count ? atoi(count + 1) : 1)) sticky = ILLEGAL_ADDRESS;
  double us = run(f, gx, gy, gz, bx, shared, args, !capturing && small, &result);
  if (capturing) captured_us += us; else advance(us);
  return result;
}
/* lets the stand-in cuBLASLt put its product on the stream */
int specadvisor_stand_in_work(double us) { if (capturing) captured_us += us; else advance(us); return capturing; }
typedef struct { int kind; double us; } Graph;
R cuStreamBeginCapture(void *s, int mode) { UNCAPTURED("cuStreamBeginCapture"); capturing = 1; captured_us = 0; return OK; }
R cuStreamEndCapture(void *s, void **g) { if (!capturing) return 901; capturing = 0; if (sticky) return sticky; Graph *x = malloc(sizeof *x); *x = (Graph){GRAPH, captured_us}; *g = x; return OK; }
R cuGraphInstantiate(void **e, void *g, unsigned long long f) { UNCAPTURED("cuGraphInstantiate"); if (!is(g, GRAPH)) return INVALID; Graph *x = malloc(sizeof *x); *x = (Graph){EXECUTABLE, ((Graph *)g)->us}; *e = x; return OK; }
R cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { return cuGraphInstantiate(e, g, f); }
R cuGraphDestroy(void *g) { if (!is(g, GRAPH)) return INVALID; *(int *)g = 0; return OK; }
R cuGraphExecDestroy(void *g) { if (!is(g, EXECUTABLE)) { fputs("stand-in: no executable graph\n", stderr); abort(); } *(int *)g = 0; return OK; }
R cuGraphLaunch(void *e, void *s) {
  WORK("cuGraphLaunch");
  if (!is(e, EXECUTABLE)) return INVALID;
  replays++;
  advance(((Graph *)e)->us);
  int ms = atoi(setting("STAND_IN_SLEEP_MS", "0"));
  if (ms) usleep(1000 * ms);
  return OK;
}
R cuGetErrorName(R e, const char **s) {
  static char text[40];
  snprintf(text, sizeof text, e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : e == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_%d", e);
  *s = text;
  return OK;
}
R cuGetErrorString(R e, const char **s) { return cuGetErrorName(e, s); }
/* NVRTC asks a driver that it finds for a private table and looks at its size before its answer */
R cuGetExportTable(const void **table, const void *id) { static const size_t empty[8] = {8}; *table = empty; return NOT_SUPPORTED; }
static R unsupported(void) { return NOT_SUPPORTED; }
R cuGetProcAddress_v2(const char *symbol, void **p, int version, uint64_t flags, int *status) {
  void *self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), *f = self ? dlsym(self, symbol) : 0;
  *p = f ? f : (void *)unsupported;
  if (status) *status = 0;
  return OK;
}
R cuGetProcAddress(const char *symbol, void **p, int version, uint64_t flags, int *status) { return cuGetProcAddress_v2(symbol, p, version, flags, status); }
