/* The common part of both versions of FMI: values by reference, derivatives, events and steps of one instance.
   It is included after the generated model.h and model.c, which define the sizes and the functions of the model. */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Value references: the time, then one block for each kind. */
#define VR_TIME 0
#define VR_STATE 1
#define VR_DERIVATIVE (VR_STATE + NX)
#define VR_INPUT (VR_DERIVATIVE + NX)
#define VR_PARAMETER (VR_INPUT + NU)
#define VR_OUTPUT (VR_PARAMETER + NP)
#define VR_INDICATOR (VR_OUTPUT + NY)
#define VR_FLAG (VR_INDICATOR + NZ)
#define VR_END (VR_FLAG + NZ)
#define AT_LEAST_ONE(n) ((n) > 0 ? (n) : 1)

enum { MODE_CREATED, MODE_INITIALIZATION, MODE_EVENT, MODE_CONTINUOUS, MODE_STEP, MODE_ENDED };

typedef struct {
    double time;
    double x[AT_LEAST_ONE(NX)];     /* coordinates q, then velocities v */
    double u[AT_LEAST_ONE(NU)];
    double p[AT_LEAST_ONE(NP + 1)]; /* the time follows the parameters where the equations depend on it */
    double dx[AT_LEAST_ONE(NX)];
    double y[AT_LEAST_ONE(NY)];
    double z[AT_LEAST_ONE(NZ)];
    int beyond[AT_LEAST_ONE(NZ)];   /* which limits are exceeded */
    int stale;                      /* dx, y and z are those of other values */
    int mode;
    int co_simulation;
    long steps;
    step_buffers buffers;
    /* of the environment; not part of a saved state */
    void *environment;
    void *logger;
    char *name;
} Instance;

static void start_values(Instance *m)
{
    memcpy(m->x, model_start, sizeof(double) * NX);
    memcpy(m->u, model_inputs, sizeof(double) * NU);
    memcpy(m->p, model_parameters, sizeof(double) * NP);
    m->time = 0.0;
    m->stale = 1;
    m->mode = MODE_CREATED;
    m->steps = 0;
    memset(&m->buffers, 0, sizeof m->buffers);
    memset(m->beyond, 0, sizeof m->beyond);
    model_memory(&m->buffers);
}

static void refresh(Instance *m)
{
    if (!m->stale)
        return;
    m->p[NP] = m->time;
    model_rates(&m->time, m->x, m->x + NQ, m->u, m->p, model_z(&m->buffers), m->dx, m->dx + NQ, m->y);
    if (NZ > 0)
        model_indicators(&m->time, m->x, m->x + NQ, m->z);
    m->stale = 0;
}

/* A value that can be read, or NULL. */
static const double *value_at(Instance *m, unsigned vr)
{
    if (vr == VR_TIME)
        return &m->time;
    if (vr < VR_DERIVATIVE)
        return &m->x[vr - VR_STATE];
    if (vr >= VR_INPUT && vr < VR_PARAMETER)
        return &m->u[vr - VR_INPUT];
    if (vr >= VR_PARAMETER && vr < VR_OUTPUT)
        return &m->p[vr - VR_PARAMETER];
    refresh(m);
    if (vr < VR_INPUT)
        return &m->dx[vr - VR_DERIVATIVE];
    if (vr < VR_INDICATOR)
        return &m->y[vr - VR_OUTPUT];
    if (vr < VR_FLAG)
        return &m->z[vr - VR_INDICATOR];
    return NULL;
}

/* Set a value; 0 if it cannot be set now, or is not a number. */
static int set_value(Instance *m, unsigned vr, double value)
{
    if (!(value - value == 0.0))
        return 0;
    if (vr >= VR_INPUT && vr < VR_PARAMETER)
        m->u[vr - VR_INPUT] = value;
    else if (vr >= VR_PARAMETER && vr < VR_OUTPUT)
        m->p[vr - VR_PARAMETER] = value;
    else if (vr >= VR_STATE && vr < VR_DERIVATIVE && (m->mode == MODE_CREATED || m->mode == MODE_INITIALIZATION))
        m->x[vr - VR_STATE] = value;
    else
        return 0;
    m->stale = 1;
    return 1;
}

static int all_finite(const double *values, int n)
{
    int i;
    for (i = 0; i < n; i++)
        if (!(values[i] - values[i] == 0.0))
            return 0;
    return 1;
}

/* Distance of the coordinates from their manifold. */
static double off_manifold(const Instance *m)
{
    double phi[AT_LEAST_ONE(NPHI)], worst = 0.0;
    int i;
    if (NPHI == 0)
        return 0.0;
    model_constraints(m->x, m->p, phi);
    for (i = 0; i < NPHI; i++)
        if (fabs(phi[i]) > worst)
            worst = fabs(phi[i]);
    return worst;
}

static void project(Instance *m)
{
    double q[AT_LEAST_ONE(NQ)];
    model_project(m->x, q);
    memcpy(m->x, q, sizeof(double) * NQ);
    m->stale = 1;
}

/* Note which limits are exceeded; whether that changed. */
static int update_flags(Instance *m)
{
    int i, changed = 0;
    refresh(m);
    for (i = 0; i < NZ; i++) {
        int now = m->z[i] > 0.0;
        changed |= now != m->beyond[i];
        m->beyond[i] = now;
    }
    return changed;
}

/* The end of the initialization: coordinates on their manifold, or 0. */
static int initialized(Instance *m)
{
    if (off_manifold(m) > 1e-3)
        return 0;
    if (off_manifold(m) > 1e-14)
        project(m);
    update_flags(m);
    refresh(m);
    return all_finite(m->dx, NX);
}

/* Derivatives of derivatives and outputs along a direction of states and inputs; 0 if a reference has none. */
static int directional(Instance *m, const unsigned *unknowns, size_t n, const unsigned *knowns, size_t k, const double *seed, double *result)
{
    double dx[AT_LEAST_ONE(NX)] = {0.0}, du[AT_LEAST_ONE(NU)] = {0.0};
    double rates[AT_LEAST_ONE(NX)], outputs[AT_LEAST_ONE(NY)];
    size_t i;
    for (i = 0; i < k; i++) {
        if (knowns[i] >= VR_STATE && knowns[i] < VR_DERIVATIVE)
            dx[knowns[i] - VR_STATE] = seed[i];
        else if (knowns[i] >= VR_INPUT && knowns[i] < VR_PARAMETER)
            du[knowns[i] - VR_INPUT] = seed[i];
        else
            return 0;
    }
    m->p[NP] = m->time;
    model_directional(&m->time, m->x, m->x + NQ, m->u, m->p, model_z(&m->buffers), dx, dx + NQ, du, rates, rates + NQ, outputs);
    for (i = 0; i < n; i++) {
        unsigned vr = unknowns[i];
        if (vr >= VR_DERIVATIVE && vr < VR_INPUT)
            result[i] = rates[vr - VR_DERIVATIVE];
        else if (vr >= VR_OUTPUT && vr < VR_INDICATOR)
            result[i] = outputs[vr - VR_OUTPUT];
        else if (vr >= VR_STATE && vr < VR_DERIVATIVE)
            result[i] = dx[vr - VR_STATE];
        else
            return 0;
    }
    return 1;
}

/* Steps of the model's integrator over a communication step; 0 if the state is no longer finite. */
static int advance_by(Instance *m, double duration)
{
    double ratio = duration / STEP_SIZE, h = STEP_SIZE;
    long n = (long)floor(ratio + 0.5), k;
    if (n < 1 || fabs(ratio - (double)n) > 1e-6 * (double)n) {
        n = (long)ceil(ratio);
        if (n < 1)
            n = 1;
        h = duration / (double)n;
    }
    model_load(&m->buffers, m->x, m->u, m->p, h);
    for (k = 0; k < n; k++) {
        model_clock(&m->buffers, m->time + (double)k * h, (double)m->steps);
        step_sample(&m->buffers, m->steps);
        step_advance(&m->buffers, m->steps);
        m->steps++;
    }
    model_store(&m->buffers, m->x);
    m->time += duration;
    m->stale = 1;
    if (!all_finite(m->x, NX))
        return 0;
    update_flags(m);
    return 1;
}

static Instance *new_instance(const char *name, const char *token)
{
    Instance *m;
    if (token == NULL || strcmp(token, MODEL_TOKEN) != 0)
        return NULL;
    m = (Instance *)calloc(1, sizeof(Instance));
    if (m == NULL)
        return NULL;
    m->name = (char *)malloc(strlen(name ? name : "") + 1);
    if (m->name == NULL) {
        free(m);
        return NULL;
    }
    strcpy(m->name, name ? name : "");
    start_values(m);
    return m;
}

static void free_instance(Instance *m)
{
    if (m == NULL)
        return;
    free(m->name);
    free(m);
}

/* Copy a saved state without what belongs to the environment. */
static void copy_state(Instance *to, const Instance *from)
{
    void *environment = to->environment, *logger = to->logger;
    char *name = to->name;
    *to = *from;
    to->environment = environment;
    to->logger = logger;
    to->name = name;
}

static const double nominal_size = 1.0;
