/* @MARK@ */
#include "@LABEL@_mpc.h"

#include <math.h>
#include <stdio.h>

@TABLES@

static @L@_memory memory;
static @L@_room room;

int main(void)
{
    double worst = 0.0, scale = 1.0, u[@L@_NU];
    int k, i, failed = 0;
    @L@_reset(&memory);
    for (k = 0; k < @COUNT@; k++) {
        failed += @L@_sample(&memory, &room, k > 0, states[k], states[k] + @L@_NQ, references[@EACH@], references[@EACH@] + @L@_MOVES * @L@_NQ,
            references[@EACH@] + @L@_MOVES * (@L@_NQ + @L@_NV), u);
        for (i = 0; i < @L@_NU; i++) {
            double d = fabs(u[i] - answers[k][i]);
            if (fabs(answers[k][i]) + 1.0 > scale)
                scale = fabs(answers[k][i]) + 1.0;
            if (!(d <= worst))
                worst = d;
        }
    }
    printf("@L@_sample: %d samples, %d restarts, %d by the law of recovery, %d without a solution; largest difference %g (allowed @TOLERANCE@)\n",
        @COUNT@, memory.restarts, memory.recoveries, failed, worst / scale);
    return !(worst / scale <= @TOLERANCE@) || failed;
}
