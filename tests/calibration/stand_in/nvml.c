/* A stand-in libnvidia-ml.so.1 for tests. STAND_IN_THROTTLE=<bits> are the throttle reasons; STAND_IN_THROTTLE_READS=n clears
 * them after n reads. Functions that are missing here are queries that a machine may refuse. */
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
R nvmlDeviceGetUUID(void *h, char *s, unsigned n) { snprintf(s, n, "GPU-abababab-abab-abab-abab-abababababab"); return 0; }
R nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.65.06"); return 0; }
typedef struct { unsigned long long total, free, used; } Memory;
R nvmlDeviceGetMemoryInfo(void *h, Memory *m) { m->total = 143771ull << 20; m->free = m->total; m->used = 0; return 0; }
R nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 2 ? 3201 : 1980; return 0; }
R nvmlDeviceGetClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 2 ? 3201 : 1755; return 0; }
R nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *mw) { *mw = 700000; return 0; }
R nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *mw) { *mw = 700000; return 0; }
R nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 412000; return 0; }
R nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = *later = 0; return 0; }
R nvmlDeviceGetEccMode(void *h, unsigned *now, unsigned *later) { *now = *later = 1; return 0; }
R nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *bits) {
  static int reads;
  const char *e = getenv("STAND_IN_THROTTLE"), *limit = getenv("STAND_IN_THROTTLE_READS");
  *bits = e && (!limit || reads++ < atoi(limit)) ? strtoull(e, 0, 0) : 0;
  return 0;
}
const char *nvmlErrorString(R r) { return r == 13 ? "Function Not Found" : "stand-in error"; }
