/* FMI 3.0 for model exchange and co-simulation. */
#include "model.h"
#include "model.c"
#include "core.c"

#include <stdbool.h>
#include <stdint.h>

#if defined _WIN32
#define FMI3_EXPORT __declspec(dllexport)
#else
#define FMI3_EXPORT __attribute__((visibility("default")))
#endif

typedef void *fmi3Instance;
typedef void *fmi3InstanceEnvironment;
typedef void *fmi3FMUState;
typedef uint32_t fmi3ValueReference;
typedef float fmi3Float32;
typedef double fmi3Float64;
typedef int8_t fmi3Int8;
typedef uint8_t fmi3UInt8;
typedef int16_t fmi3Int16;
typedef uint16_t fmi3UInt16;
typedef int32_t fmi3Int32;
typedef uint32_t fmi3UInt32;
typedef int64_t fmi3Int64;
typedef uint64_t fmi3UInt64;
typedef bool fmi3Boolean;
typedef const char *fmi3String;
typedef uint8_t fmi3Byte;
typedef const fmi3Byte *fmi3Binary;
typedef bool fmi3Clock;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef enum { fmi3Independent, fmi3Constant, fmi3Fixed, fmi3Tunable, fmi3Discrete, fmi3Dependent } fmi3DependencyKind;
typedef enum { fmi3IntervalNotYetKnown, fmi3IntervalUnchanged, fmi3IntervalChanged } fmi3IntervalQualifier;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3ClockUpdateCallback)(fmi3InstanceEnvironment);
typedef void (*fmi3IntermediateUpdateCallback)(fmi3InstanceEnvironment, fmi3Float64, fmi3Boolean, fmi3Boolean, fmi3Boolean, fmi3Boolean, fmi3Boolean *, fmi3Float64 *);
typedef void (*fmi3LockPreemptionCallback)(void);
typedef void (*fmi3UnlockPreemptionCallback)(void);
typedef union { void *data; fmi3LogMessageCallback function; } LoggerPointer;

static fmi3Status report(Instance *m, fmi3Status status, const char *text)
{
    LoggerPointer logger;
    logger.data = m->logger;
    if (logger.data != NULL)
        logger.function(m->environment, status, "logStatusError", text);
    return status;
}

static Instance *instantiate(fmi3String name, fmi3String token, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, int co_simulation)
{
    LoggerPointer logger;
    Instance *m = new_instance(name, token);
    logger.function = log;
    if (m == NULL) {
        if (log != NULL)
            log(environment, fmi3Error, "logStatusError", "the instantiation token is not that of this FMU, or no memory is left");
        return NULL;
    }
    m->environment = environment;
    m->logger = logger.data;
    m->co_simulation = co_simulation;
    return m;
}

FMI3_EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

FMI3_EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String names[])
{
    (void)c; (void)on; (void)n; (void)names;
    return fmi3OK;
}

FMI3_EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logging,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log)
{
    (void)resources; (void)visible; (void)logging;
    return instantiate(name, token, environment, log, 0);
}

FMI3_EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logging,
    fmi3Boolean events, fmi3Boolean early, const fmi3ValueReference required[], size_t n, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
    fmi3IntermediateUpdateCallback update)
{
    (void)resources; (void)visible; (void)logging; (void)early; (void)required; (void)n; (void)update;
    if (events)
        return NULL;
    return instantiate(name, token, environment, log, 1);
}

FMI3_EXPORT fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logging,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, fmi3ClockUpdateCallback clock, fmi3LockPreemptionCallback lock,
    fmi3UnlockPreemptionCallback unlock)
{
    (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)log; (void)clock; (void)lock; (void)unlock;
    return NULL;
}

FMI3_EXPORT void fmi3FreeInstance(fmi3Instance c) { free_instance((Instance *)c); }

FMI3_EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean defined, fmi3Float64 tolerance, fmi3Float64 start, fmi3Boolean ends, fmi3Float64 stop)
{
    Instance *m = (Instance *)c;
    (void)defined; (void)tolerance; (void)ends; (void)stop;
    m->time = start;
    m->stale = 1;
    m->mode = MODE_INITIALIZATION;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3ExitInitializationMode(fmi3Instance c)
{
    Instance *m = (Instance *)c;
    if (!initialized(m))
        return report(m, fmi3Error, "the start is off the manifold of the coordinates, or its derivatives are not finite");
    m->mode = m->co_simulation ? MODE_STEP : MODE_EVENT;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3EnterEventMode(fmi3Instance c)
{
    ((Instance *)c)->mode = MODE_EVENT;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3Terminate(fmi3Instance c)
{
    ((Instance *)c)->mode = MODE_ENDED;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3Reset(fmi3Instance c)
{
    start_values((Instance *)c);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Float64 value[], size_t values)
{
    Instance *m = (Instance *)c;
    size_t i;
    if (n != values)
        return report(m, fmi3Error, "fmi3GetFloat64: all variables are scalars");
    for (i = 0; i < n; i++) {
        const double *at = value_at(m, vr[i]);
        if (at == NULL)
            return report(m, fmi3Error, "fmi3GetFloat64: unknown value reference");
        value[i] = *at;
    }
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n, const fmi3Float64 value[], size_t values)
{
    Instance *m = (Instance *)c;
    size_t i;
    if (n != values)
        return report(m, fmi3Error, "fmi3SetFloat64: all variables are scalars");
    for (i = 0; i < n; i++)
        if (!set_value(m, vr[i], value[i]))
            return report(m, fmi3Error, "fmi3SetFloat64: a variable that cannot be set now, or a value that is not finite");
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetBoolean(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Boolean value[], size_t values)
{
    Instance *m = (Instance *)c;
    size_t i;
    (void)values;
    if (m->mode == MODE_INITIALIZATION)
        update_flags(m);
    for (i = 0; i < n; i++) {
        if (vr[i] < VR_FLAG || vr[i] >= VR_END)
            return report(m, fmi3Error, "fmi3GetBoolean: unknown value reference");
        value[i] = m->beyond[vr[i] - VR_FLAG] != 0;
    }
    return fmi3OK;
}

#define NONE_TO_GET(kind, type) \
FMI3_EXPORT fmi3Status fmi3Get##kind(fmi3Instance c, const fmi3ValueReference vr[], size_t n, type value[], size_t values) \
{ (void)vr; (void)value; (void)values; return n ? report((Instance *)c, fmi3Error, "there are no variables of this type") : fmi3OK; }
#define NONE_TO_SET(kind, type) \
FMI3_EXPORT fmi3Status fmi3Set##kind(fmi3Instance c, const fmi3ValueReference vr[], size_t n, const type value[], size_t values) \
{ (void)vr; (void)value; (void)values; return n ? report((Instance *)c, fmi3Error, "there are no variables of this type that can be set") : fmi3OK; }
#define NONE(kind) NONE_TO_GET(kind, fmi3##kind) NONE_TO_SET(kind, fmi3##kind)
NONE(Float32)
NONE(Int8)
NONE(UInt8)
NONE(Int16)
NONE(UInt16)
NONE(Int32)
NONE(UInt32)
NONE(Int64)
NONE(UInt64)
NONE(String)
NONE_TO_SET(Boolean, fmi3Boolean)

#define WITHOUT(name, ...) \
FMI3_EXPORT fmi3Status fmi3##name(fmi3Instance c, __VA_ARGS__) \
{ return report((Instance *)c, fmi3Error, "fmi3" #name " is not provided"); }
#define REFERENCES const fmi3ValueReference vr[], size_t n
WITHOUT(GetBinary, REFERENCES, size_t sizes[], fmi3Binary value[], size_t values)
WITHOUT(SetBinary, REFERENCES, const size_t sizes[], const fmi3Binary value[], size_t values)
WITHOUT(GetClock, REFERENCES, fmi3Clock value[])
WITHOUT(SetClock, REFERENCES, const fmi3Clock value[])
WITHOUT(GetNumberOfVariableDependencies, fmi3ValueReference vr, size_t *n)
WITHOUT(GetVariableDependencies, fmi3ValueReference vr, size_t at[], fmi3ValueReference on[], size_t of[], fmi3DependencyKind kinds[], size_t n)
WITHOUT(GetAdjointDerivative, const fmi3ValueReference unknowns[], size_t n, const fmi3ValueReference knowns[], size_t k, const fmi3Float64 seed[],
    size_t seeds, fmi3Float64 result[], size_t results)
WITHOUT(GetIntervalDecimal, REFERENCES, fmi3Float64 intervals[], fmi3IntervalQualifier qualifiers[])
WITHOUT(GetIntervalFraction, REFERENCES, fmi3UInt64 counters[], fmi3UInt64 resolutions[], fmi3IntervalQualifier qualifiers[])
WITHOUT(GetShiftDecimal, REFERENCES, fmi3Float64 shifts[])
WITHOUT(GetShiftFraction, REFERENCES, fmi3UInt64 counters[], fmi3UInt64 resolutions[])
WITHOUT(SetIntervalDecimal, REFERENCES, const fmi3Float64 intervals[])
WITHOUT(SetIntervalFraction, REFERENCES, const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
WITHOUT(SetShiftDecimal, REFERENCES, const fmi3Float64 shifts[])
WITHOUT(SetShiftFraction, REFERENCES, const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
WITHOUT(GetOutputDerivatives, REFERENCES, const fmi3Int32 orders[], fmi3Float64 value[], size_t values)
WITHOUT(ActivateModelPartition, fmi3ValueReference clock, fmi3Float64 time)

FMI3_EXPORT fmi3Status fmi3EnterConfigurationMode(fmi3Instance c) { return report((Instance *)c, fmi3Error, "there is nothing to configure"); }
FMI3_EXPORT fmi3Status fmi3ExitConfigurationMode(fmi3Instance c) { return report((Instance *)c, fmi3Error, "there is nothing to configure"); }
FMI3_EXPORT fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance c) { (void)c; return fmi3OK; }

FMI3_EXPORT fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *state)
{
    if (*state == NULL)
        *state = calloc(1, sizeof(Instance));
    if (*state == NULL)
        return report((Instance *)c, fmi3Error, "no memory is left");
    copy_state((Instance *)*state, (const Instance *)c);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState state)
{
    copy_state((Instance *)c, (const Instance *)state);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *state)
{
    (void)c;
    free(*state);
    *state = NULL;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState state, size_t *size)
{
    (void)c; (void)state;
    *size = sizeof(Instance);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState state, fmi3Byte bytes[], size_t size)
{
    if (size < sizeof(Instance))
        return report((Instance *)c, fmi3Error, "the array for the state is too small");
    memcpy(bytes, state, sizeof(Instance));
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte bytes[], size_t size, fmi3FMUState *state)
{
    if (size != sizeof(Instance))
        return report((Instance *)c, fmi3Error, "the state is not one of this FMU");
    if (*state == NULL)
        *state = calloc(1, sizeof(Instance));
    if (*state == NULL)
        return report((Instance *)c, fmi3Error, "no memory is left");
    memcpy(*state, bytes, sizeof(Instance));
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t n, const fmi3ValueReference knowns[],
    size_t k, const fmi3Float64 seed[], size_t seeds, fmi3Float64 result[], size_t results)
{
    Instance *m = (Instance *)c;
    if (seeds != k || results != n)
        return report(m, fmi3Error, "fmi3GetDirectionalDerivative: all variables are scalars");
    return directional(m, unknowns, n, knowns, k, seed, result) ? fmi3OK : report(m, fmi3Error, "no directional derivative for these variables");
}

FMI3_EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *again, fmi3Boolean *terminate, fmi3Boolean *nominals, fmi3Boolean *values,
    fmi3Boolean *defined, fmi3Float64 *next)
{
    Instance *m = (Instance *)c;
    *again = *terminate = *nominals = *values = *defined = false;
    *next = 0.0;
    if (off_manifold(m) > DRIFT) {
        project(m);
        *values = true;
    }
    update_flags(m);
    return fmi3OK;
}

/* model exchange */

FMI3_EXPORT fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c)
{
    ((Instance *)c)->mode = MODE_CONTINUOUS;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean final, fmi3Boolean *event, fmi3Boolean *terminate)
{
    (void)final;
    *event = off_manifold((Instance *)c) > DRIFT;
    *terminate = false;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 time)
{
    Instance *m = (Instance *)c;
    m->time = time;
    m->stale = 1;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64 x[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX || !all_finite(x, NX))
        return report(m, fmi3Error, "fmi3SetContinuousStates: wrong number of states, or one that is not finite");
    memcpy(m->x, x, sizeof(double) * NX);
    m->stale = 1;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64 dx[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX)
        return report(m, fmi3Error, "fmi3GetContinuousStateDerivatives: wrong number of states");
    refresh(m);
    memcpy(dx, m->dx, sizeof(double) * NX);
    return all_finite(m->dx, NX) ? fmi3OK : fmi3Discard;
}

FMI3_EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64 z[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NZ)
        return report(m, fmi3Error, "fmi3GetEventIndicators: wrong number of indicators");
    refresh(m);
    if (n > 0)
        memcpy(z, m->z, sizeof(double) * n);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX)
        return report(m, fmi3Error, "fmi3GetContinuousStates: wrong number of states");
    memcpy(x, m->x, sizeof(double) * NX);
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n)
{
    size_t i;
    (void)c;
    for (i = 0; i < n; i++)
        x[i] = nominal_size;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n)
{
    (void)c;
    *n = NZ;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n)
{
    (void)c;
    *n = NX;
    return fmi3OK;
}

/* co-simulation */

FMI3_EXPORT fmi3Status fmi3EnterStepMode(fmi3Instance c)
{
    ((Instance *)c)->mode = MODE_STEP;
    return fmi3OK;
}

FMI3_EXPORT fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 time, fmi3Float64 duration, fmi3Boolean final, fmi3Boolean *event, fmi3Boolean *terminate,
    fmi3Boolean *early, fmi3Float64 *reached)
{
    Instance *m = (Instance *)c;
    (void)final;
    *event = *terminate = *early = false;
    *reached = m->time;
    if (!(duration > 0.0))
        return report(m, fmi3Error, "fmi3DoStep: the step must be positive");
    m->time = time;
    if (!advance_by(m, duration))
        return report(m, fmi3Error, "fmi3DoStep: the state is no longer finite");
    *reached = m->time;
    return fmi3OK;
}
