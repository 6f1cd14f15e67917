/* FMI 2.0 for model exchange and co-simulation. */
#include "model.h"
#include "model.c"
#include "core.c"

#if defined _WIN32
#define FMI2_EXPORT __declspec(dllexport)
#else
#define FMI2_EXPORT __attribute__((visibility("default")))
#endif

typedef void *fmi2Component;
typedef void *fmi2ComponentEnvironment;
typedef void *fmi2FMUstate;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer;
typedef int fmi2Boolean;
typedef char fmi2Char;
typedef const fmi2Char *fmi2String;
typedef char fmi2Byte;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2ModelExchange, fmi2CoSimulation } fmi2Type;
typedef enum { fmi2DoStepStatus, fmi2PendingStatus, fmi2LastSuccessfulTime, fmi2Terminated } fmi2StatusKind;
typedef struct {
    void (*logger)(fmi2ComponentEnvironment, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(fmi2ComponentEnvironment, fmi2Status);
    fmi2ComponentEnvironment componentEnvironment;
} fmi2CallbackFunctions;
typedef struct {
    fmi2Boolean newDiscreteStatesNeeded;
    fmi2Boolean terminateSimulation;
    fmi2Boolean nominalsOfContinuousStatesChanged;
    fmi2Boolean valuesOfContinuousStatesChanged;
    fmi2Boolean nextEventTimeDefined;
    fmi2Real nextEventTime;
} fmi2EventInfo;

static fmi2Status report(Instance *m, fmi2Status status, const char *text)
{
    const fmi2CallbackFunctions *functions = (const fmi2CallbackFunctions *)m->logger;
    if (functions != NULL && functions->logger != NULL)
        functions->logger(functions->componentEnvironment, m->name, status, "logStatusError", "%s", text);
    return status;
}

FMI2_EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
FMI2_EXPORT const char *fmi2GetVersion(void) { return "2.0"; }

FMI2_EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String names[])
{
    (void)c; (void)on; (void)n; (void)names;
    return fmi2OK;
}

FMI2_EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
    const fmi2CallbackFunctions *functions, fmi2Boolean visible, fmi2Boolean logging)
{
    Instance *m = new_instance(name, guid);
    (void)resources; (void)visible; (void)logging;
    if (m == NULL) {
        if (functions != NULL && functions->logger != NULL)
            functions->logger(functions->componentEnvironment, name, fmi2Error, "logStatusError", "%s", "the guid is not that of this FMU, or no memory is left");
        return NULL;
    }
    m->logger = (void *)functions;
    m->co_simulation = type == fmi2CoSimulation;
    return m;
}

FMI2_EXPORT void fmi2FreeInstance(fmi2Component c) { free_instance((Instance *)c); }

FMI2_EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean defined, fmi2Real tolerance, fmi2Real start, fmi2Boolean ends, fmi2Real stop)
{
    Instance *m = (Instance *)c;
    (void)defined; (void)tolerance; (void)ends; (void)stop;
    m->time = start;
    m->stale = 1;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    ((Instance *)c)->mode = MODE_INITIALIZATION;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    Instance *m = (Instance *)c;
    if (!initialized(m))
        return report(m, fmi2Error, "the start is off the manifold of the coordinates, or its derivatives are not finite");
    m->mode = m->co_simulation ? MODE_STEP : MODE_EVENT;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2Terminate(fmi2Component c)
{
    ((Instance *)c)->mode = MODE_ENDED;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2Reset(fmi2Component c)
{
    start_values((Instance *)c);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n, fmi2Real value[])
{
    Instance *m = (Instance *)c;
    size_t i;
    for (i = 0; i < n; i++) {
        const double *at = value_at(m, vr[i]);
        if (at == NULL)
            return report(m, fmi2Error, "fmi2GetReal: unknown value reference");
        value[i] = *at;
    }
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n, const fmi2Real value[])
{
    Instance *m = (Instance *)c;
    size_t i;
    for (i = 0; i < n; i++)
        if (!set_value(m, vr[i], value[i]))
            return report(m, fmi2Error, "fmi2SetReal: a variable that cannot be set now, or a value that is not finite");
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference vr[], size_t n, fmi2Boolean value[])
{
    Instance *m = (Instance *)c;
    size_t i;
    if (m->mode == MODE_INITIALIZATION)
        update_flags(m);
    for (i = 0; i < n; i++) {
        if (vr[i] < VR_FLAG || vr[i] >= VR_END)
            return report(m, fmi2Error, "fmi2GetBoolean: unknown value reference");
        value[i] = m->beyond[vr[i] - VR_FLAG];
    }
    return fmi2OK;
}

#define NONE(kind, type) \
FMI2_EXPORT fmi2Status fmi2Get##kind(fmi2Component c, const fmi2ValueReference vr[], size_t n, type value[]) \
{ (void)vr; (void)value; return n ? report((Instance *)c, fmi2Error, "there are no variables of this type") : fmi2OK; }
#define NONE_TO_SET(kind, type) \
FMI2_EXPORT fmi2Status fmi2Set##kind(fmi2Component c, const fmi2ValueReference vr[], size_t n, const type value[]) \
{ (void)vr; (void)value; return n ? report((Instance *)c, fmi2Error, "there are no variables of this type that can be set") : fmi2OK; }
NONE(Integer, fmi2Integer)
NONE(String, fmi2String)
NONE_TO_SET(Integer, fmi2Integer)
NONE_TO_SET(Boolean, fmi2Boolean)
NONE_TO_SET(String, fmi2String)

FMI2_EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    if (*state == NULL)
        *state = calloc(1, sizeof(Instance));
    if (*state == NULL)
        return report((Instance *)c, fmi2Error, "no memory is left");
    copy_state((Instance *)*state, (const Instance *)c);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state)
{
    copy_state((Instance *)c, (const Instance *)state);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)c;
    free(*state);
    *state = NULL;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size)
{
    (void)c; (void)state;
    *size = sizeof(Instance);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size)
{
    if (size < sizeof(Instance))
        return report((Instance *)c, fmi2Error, "the array for the state is too small");
    memcpy(bytes, state, sizeof(Instance));
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state)
{
    if (size != sizeof(Instance))
        return report((Instance *)c, fmi2Error, "the state is not one of this FMU");
    if (*state == NULL)
        *state = calloc(1, sizeof(Instance));
    if (*state == NULL)
        return report((Instance *)c, fmi2Error, "no memory is left");
    memcpy(*state, bytes, sizeof(Instance));
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknowns[], size_t n,
    const fmi2ValueReference knowns[], size_t k, const fmi2Real seed[], fmi2Real result[])
{
    Instance *m = (Instance *)c;
    return directional(m, unknowns, n, knowns, k, seed, result) ? fmi2OK : report(m, fmi2Error, "no directional derivative for these variables");
}

/* model exchange */

FMI2_EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c)
{
    ((Instance *)c)->mode = MODE_EVENT;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info)
{
    Instance *m = (Instance *)c;
    memset(info, 0, sizeof *info);
    if (off_manifold(m) > DRIFT) {
        project(m);
        info->valuesOfContinuousStatesChanged = 1;
    }
    update_flags(m);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c)
{
    ((Instance *)c)->mode = MODE_CONTINUOUS;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean final, fmi2Boolean *event, fmi2Boolean *terminate)
{
    Instance *m = (Instance *)c;
    (void)final;
    *event = off_manifold(m) > DRIFT;
    *terminate = 0;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SetTime(fmi2Component c, fmi2Real time)
{
    Instance *m = (Instance *)c;
    m->time = time;
    m->stale = 1;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX || !all_finite(x, NX))
        return report(m, fmi2Error, "fmi2SetContinuousStates: wrong number of states, or one that is not finite");
    memcpy(m->x, x, sizeof(double) * NX);
    m->stale = 1;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real dx[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX)
        return report(m, fmi2Error, "fmi2GetDerivatives: wrong number of states");
    refresh(m);
    memcpy(dx, m->dx, sizeof(double) * NX);
    return all_finite(m->dx, NX) ? fmi2OK : fmi2Discard;
}

FMI2_EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real z[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NZ)
        return report(m, fmi2Error, "fmi2GetEventIndicators: wrong number of indicators");
    refresh(m);
    if (n > 0)
        memcpy(z, m->z, sizeof(double) * n);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n)
{
    Instance *m = (Instance *)c;
    if (n != NX)
        return report(m, fmi2Error, "fmi2GetContinuousStates: wrong number of states");
    memcpy(x, m->x, sizeof(double) * NX);
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real x[], size_t n)
{
    size_t i;
    (void)c;
    for (i = 0; i < n; i++)
        x[i] = nominal_size;
    return fmi2OK;
}

/* co-simulation */

FMI2_EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference vr[], size_t n, const fmi2Integer order[], const fmi2Real value[])
{
    (void)vr; (void)order; (void)value;
    return n ? report((Instance *)c, fmi2Error, "inputs are held, they have no derivatives") : fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference vr[], size_t n, const fmi2Integer order[], fmi2Real value[])
{
    (void)vr; (void)order; (void)value;
    return n ? report((Instance *)c, fmi2Error, "there are no derivatives of outputs") : fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real time, fmi2Real duration, fmi2Boolean final)
{
    Instance *m = (Instance *)c;
    (void)final;
    if (!(duration > 0.0))
        return report(m, fmi2Error, "fmi2DoStep: the step must be positive");
    m->time = time;
    return advance_by(m, duration) ? fmi2OK : report(m, fmi2Error, "fmi2DoStep: the state is no longer finite");
}

FMI2_EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { return report((Instance *)c, fmi2Error, "steps are not asynchronous"); }

FMI2_EXPORT fmi2Status fmi2GetStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Status *value)
{
    (void)c; (void)kind;
    *value = fmi2OK;
    return fmi2Discard;
}

FMI2_EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Real *value)
{
    if (kind != fmi2LastSuccessfulTime)
        return fmi2Discard;
    *value = ((Instance *)c)->time;
    return fmi2OK;
}

FMI2_EXPORT fmi2Status fmi2GetIntegerStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Integer *value)
{
    (void)c; (void)kind; (void)value;
    return fmi2Discard;
}

FMI2_EXPORT fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value)
{
    (void)c;
    *value = 0;
    return kind == fmi2Terminated ? fmi2OK : fmi2Discard;
}

FMI2_EXPORT fmi2Status fmi2GetStringStatus(fmi2Component c, const fmi2StatusKind kind, fmi2String *value)
{
    (void)c; (void)kind; (void)value;
    return fmi2Discard;
}
