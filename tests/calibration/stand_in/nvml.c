/* A stand-in libnvidia-ml.so.1 for tests. STAND_IN_THROTTLE=<bits> are the throttle reasons; STAND_IN_THROTTLE_READS=n clears
 * them after n reads. STAND_IN_MIG=1: the GPU is divided, and what CUDA sees is its second slice. STAND_IN_OLD_NVML=1: a driver
 * before 535, which knows the throttle reasons by their old name only. Functions that are missing here are queries that a
 * machine may refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int R;
R nvmlInit_v2(void) { return 0; }
R nvmlInitWithFlags(unsigned f) { return 0; }
R nvmlShutdown(void) { return 0; }
R nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
R nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)0x10; return 0; }
R nvmlDeviceGetName(void *h, char *s, unsigned n) { const char *e = getenv("STAND_IN_NAME"); snprintf(s, n, "%s", e ? e : "NVIDIA H200"); return 0; }
static int set(const char *name) { return getenv(name) != 0; }
R nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
  int slice = h == (void *)0x21, other = set("STAND_IN_MIG") && !slice;
  snprintf(s, n, "%s-%s-abab-abab-abab-abababababab", h == (void *)0x10 ? "GPU" : "MIG", other ? "00000000" : "abababab");
  return 0;
}
R nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { *n = set("STAND_IN_MIG") ? 7 : 0; return 0; }
R nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **slice) { *slice = (void *)(0x20ull + i); return i < 2 ? 0 : 6; }
R nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.65.06"); return 0; }
typedef struct { unsigned long long total, free, used; } Memory;
R nvmlDeviceGetMemoryInfo(void *h, Memory *m) { m->total = 143771ull << 20; m->free = m->total; m->used = 0; return 0; }
R nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 2 ? 3201 : 1980; return 0; }
R nvmlDeviceGetClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 2 ? 3201 : 1755; return 0; }
R nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *mw) { *mw = 700000; return 0; }
R nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *mw) { *mw = 700000; return 0; }
R nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 412000; return 0; }
R nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = *later = set("STAND_IN_MIG"); return 0; }
R nvmlDeviceGetEccMode(void *h, unsigned *now, unsigned *later) { *now = *later = 1; return 0; }
static R reasons(unsigned long long *bits) {
  static int reads;
  const char *e = getenv("STAND_IN_THROTTLE"), *limit = getenv("STAND_IN_THROTTLE_READS");
  *bits = e && (!limit || reads++ < atoi(limit)) ? strtoull(e, 0, 0) : 0;
  return 0;
}
R nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *bits) { return set("STAND_IN_OLD_NVML") ? 13 : reasons(bits); }
R nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *bits) { return reasons(bits); }
/* as in a container: this process under the host's number, and as many others as STAND_IN_OTHERS says */
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } Process;
R nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, Process *p) {
  unsigned found = 1 + (set("STAND_IN_OTHERS") ? atoi(getenv("STAND_IN_OTHERS")) : 0), room = *n;
  *n = found;
  if (room < found) return 7;
  for (unsigned i = 0; i < found; ++i) p[i] = (Process){4000000 + i, 1, 0, 0};
  return 0;
}
const char *nvmlErrorString(R r) { return r == 13 ? "Function Not Found" : "stand-in error"; }
