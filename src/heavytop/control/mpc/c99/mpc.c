/* @MARK@ */
#include "@LABEL@_mpc.h"

#include "@LABEL@.h"

#include <math.h>
#include <string.h>

enum { N = @L@_MOVES, NQ = @L@_NQ, NV = @L@_NV, NU = @L@_NU, NX = @L@_NX, NE = @NE@, SIZE = N * NU };
enum { MORE = @MORE@, PATIENCE = @PATIENCE@, SETTLING = @SETTLING@, LOST = @LOST@, BLOCK_ROUNDS = @BLOCK_ROUNDS@, ROUNDS = @ROUNDS@ };

@TABLES@

static double clip(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

void @L@_reset(@L@_memory *m)
{
    memset(m, 0, sizeof *m);
    m->wait = PATIENCE;
    m->since = LOST * N;
    m->bar = HUGE_VAL;
    m->trust = TRUST_HIGH;
}

static void begin(@L@_memory *m, const double *q, const double *v, const double *u_R)
{
    int k, i;
    for (k = 0; k <= N; k++) {
        memcpy(m->q[k], q, sizeof m->q[k]);
        memcpy(m->v[k], v, sizeof m->v[k]);
    }
    for (k = 0; k < N; k++)
        for (i = 0; i < NU; i++)
            m->u[k][i] = clip(u_R[k * NU + i], lowest[i], highest[i]);
    m->begun = 1;
}

static void shift(@L@_memory *m, int moves)
{
    for (; moves > 0; moves--) {
        memmove(m->q[0], m->q[1], N * sizeof m->q[0]);
        memmove(m->v[0], m->v[1], N * sizeof m->v[0]);
        memmove(m->u[0], m->u[1], (N - 1) * sizeof m->u[0]);
    }
}

static void linearize(@L@_memory *m, @L@_room *w, const double *q_R, const double *v_R)
{
    int k;
    for (k = 0; k < N; k++)
        @PREDICTION@(m->q[k], m->v[k], m->u[k], m->q[k + 1], m->v[k + 1], q_R + k * NQ, v_R + k * NV, &step, parameters,
            w->defect[k], w->A[k], w->B[k], w->away[k], w->turn[k]);
}

static double weight(int k, int i, int j)
{
    if (k == N - 1)
        return last_root[i * NX + j];
    return i == j ? root[i] : 0.0;
}

/* Deviations times the roots of their weights. */
static void weigh(@L@_room *w)
{
    int k, i, j;
    for (k = 0; k < N; k++)
        for (i = 0; i < NX; i++) {
            w->d[k][i] = 0.0;
            for (j = 0; j < NX; j++)
                w->d[k][i] += weight(k, i, j) * w->away[k][j];
        }
}

/* Restart along the straight path on the manifold to the reference, reached within half the horizon. */
static void restart(@L@_memory *m, const double *q_R, const double *v_R, const double *u_R)
{
    int k, i, half = N / 2 > 0 ? N / 2 : 1;
    double moved[@SPEEDS@], left, before;
    m->restarts++;
    (void)v_R;
    for (k = 0; k < N; k++) {
        left = 1.0 - (double)(k + 1) / half;
        before = 1.0 - (double)k / half;
        left = left > 0.0 ? left : 0.0;
        before = before > 0.0 ? before : 0.0;
        @STRAIGHT@(m->q[0], q_R + k * NQ, &left, &before, &step, m->q[k + 1], moved);
        for (i = 0; i < NV; i++)
            m->v[k + 1][i] = @SPEED@;
        for (i = 0; i < NU; i++)
            m->u[k][i] = clip(u_R[k * NU + i], lowest[i], highest[i]);
    }
}

/* Largest gap (rad), largest turn away from the reference (rad), that at the end, and cost of the predicted motion. */
typedef struct {
    double gap, far, last, cost;
} outlook;

static outlook look_ahead(const @L@_memory *m, const @L@_room *w, const double *u_R)
{
    double gap = 0.0, far = 0.0, last = 0.0, cost = 0.0, more;
    outlook seen;
    int k, i;
    for (k = 0; k < N; k++) {
        for (i = 0; i < NX; i++) {
            if (is_angle[i] && !(fabs(w->defect[k][i]) <= gap))
                gap = fabs(w->defect[k][i]);
            if (is_turn[i] && !(fabs(w->away[k][i]) <= far))
                far = fabs(w->away[k][i]);
            if (k == N - 1 && is_turn[i] && !(fabs(w->away[k][i]) <= last))
                last = fabs(w->away[k][i]);
            cost += 0.5 * w->d[k][i] * w->d[k][i];
        }
        for (i = 0; i < NU; i++) {
            more = m->u[k][i] - u_R[k * NU + i];
            cost += 0.5 * effort[i] * more * more;
        }
    }
    seen.gap = gap;
    seen.far = far;
    seen.last = last;
    seen.cost = cost;
    return seen;
}

#if HAS_RECOVERY
/* Predict the motion of the law of recovery; returns whether its inputs are to be used, since it is far turned somewhere or still far away. */
static int recover(@L@_memory *m, @L@_room *w, const double *q_R, const double *v_R, const double *u_R)
{
    outlook seen;
    double a_R[NV];
    int k, i, last;
    m->recoveries++;
    m->trust = TRUST_HIGH;
    m->cost_count = 0;
    for (k = 0; k < N; k++) {
        last = k < N - 1 ? k : N - 2;
        for (i = 0; i < NV; i++)
            a_R[i] = (v_R[(last + 1) * NV + i] - v_R[last * NV + i]) / step;
        @RECOVERY@(m->q[k], m->v[k], q_R + k * NQ, v_R + k * NV, a_R, &step, parameters, m->q[k + 1], m->v[k + 1], m->u[k]);
    }
    linearize(m, w, q_R, v_R);
    weigh(w);
    seen = look_ahead(m, w, u_R);
    if (!m->handed && m->since >= LOST * N)
        m->bar = HUGE_VAL;
    m->handed = seen.far > FAR_TURN || !(seen.cost < BACK * m->bar);
    m->since = 0;
    if (!m->handed)
        m->bar = seen.cost;
    return m->handed;
}
#endif

/* Update trust region and stored costs. */
static void remember(@L@_memory *m, const outlook *seen)
{
    if (seen->gap > LARGE_GAP)
        m->trust = 0.5 * m->trust > TRUST_LOW ? 0.5 * m->trust : TRUST_LOW;
    else
        m->trust = 2.0 * m->trust < TRUST_HIGH ? 2.0 * m->trust : TRUST_HIGH;
    if (m->cost_count > PATIENCE)
        memmove(m->costs, m->costs + 1, PATIENCE * sizeof m->costs[0]);
    else
        m->cost_count++;
    m->costs[m->cost_count - 1] = seen->cost;
    m->wait--;
}

/* Whether a gap is too large to be closed, or the cost of a far turned motion rises. */
static int is_dead_end(const @L@_memory *m, const outlook *seen)
{
    int stuck = m->wait <= 0 && seen->far > FAR_TURN && seen->cost > m->costs[0];
    return stuck || !isfinite(seen->cost) || !(seen->gap < HOPELESS_GAP);
}

/* States are eliminated: x_k = f_k + S_k du. H and g of the quadratic program in du. */
static void condense(@L@_memory *m, @L@_room *w, const double *u_R)
{
    int k, i, j, n, c;
    memset(w->H, 0, sizeof w->H);
    memset(w->g, 0, sizeof w->g);
    for (k = 0; k < N; k++) {
        c = k * NU;
        for (i = 0; i < NX; i++) {
            w->f[k][i] = w->defect[k][i];
            for (j = 0; j < c; j++)
                w->S[k][i][j] = 0.0;
            if (k > 0)
                for (n = 0; n < NX; n++) {
                    double a = w->A[k][i * NX + n];
                    w->f[k][i] += a * w->f[k - 1][n];
                    for (j = 0; j < c; j++)
                        w->S[k][i][j] += a * w->S[k - 1][n][j];
                }
            for (j = 0; j < NU; j++)
                w->S[k][i][c + j] = w->B[k][i * NU + j];
        }
        c += NU;
        for (i = 0; i < NX; i++) {
            double d = w->d[k][i];
            for (j = 0; j < c; j++)
                w->G[i][j] = 0.0;
            for (n = 0; n < NX; n++) {
                double t = 0.0;
                for (j = 0; j < NX; j++)
                    t += weight(k, i, j) * w->turn[k][j * NX + n];
                if (t == 0.0)
                    continue;
                d += t * w->f[k][n];
                for (j = 0; j < c; j++)
                    w->G[i][j] += t * w->S[k][n][j];
            }
            for (j = 0; j < c; j++)
                w->g[j] += d * w->G[i][j];
        }
        for (i = 0; i < NX; i++)
            for (n = 0; n < c; n++) {
                double a = w->G[i][n];
                for (j = 0; j <= n; j++)
                    w->H[n][j] += a * w->G[i][j];
            }
    }
    for (k = 0; k < N; k++)
        for (i = 0; i < NU; i++) {
            n = k * NU + i;
            w->H[n][n] += effort[i];
            w->g[n] += effort[i] * (m->u[k][i] - u_R[n]);
            w->low[n] = lowest[i] - m->u[k][i];
            w->high[n] = highest[i] - m->u[k][i];
        }
    for (n = 0; n < SIZE; n++)
        for (j = 0; j < n; j++)
            w->H[j][n] = w->H[n][j];
}

/* x with the active variables at their bounds; returns 0 if the matrix is not positive definite. */
static int solve(@L@_room *w, const signed char *side)
{
    int i, j, n;
    for (i = 0; i < SIZE; i++) {
        if (side[i]) {
            w->x[i] = side[i] < 0 ? w->low[i] : w->high[i];
            continue;
        }
        w->x[i] = -w->g[i];
        for (j = 0; j < SIZE; j++)
            if (side[j])
                w->x[i] -= w->H[i][j] * (side[j] < 0 ? w->low[j] : w->high[j]);
    }
    for (i = 0; i < SIZE; i++) {
        if (side[i])
            continue;
        for (j = 0; j <= i; j++) {
            double sum = w->H[i][j];
            if (side[j])
                continue;
            for (n = 0; n < j; n++)
                if (!side[n])
                    sum -= w->C[i][n] * w->C[j][n];
            if (i == j) {
                if (!(sum > 0.0) || !isfinite(sum))
                    return 0;
                w->C[i][i] = sqrt(sum);
            } else
                w->C[i][j] = sum / w->C[j][j];
        }
        for (n = 0; n < i; n++)
            if (!side[n])
                w->x[i] -= w->C[i][n] * w->x[n];
        w->x[i] /= w->C[i][i];
    }
    for (i = SIZE - 1; i >= 0; i--) {
        if (side[i])
            continue;
        for (n = i + 1; n < SIZE; n++)
            if (!side[n])
                w->x[i] -= w->C[n][i] * w->x[n];
        w->x[i] /= w->C[i][i];
    }
    return 1;
}

static double slope_at(const @L@_room *w, int i)
{
    double slope = w->g[i];
    int j;
    for (j = 0; j < SIZE; j++)
        slope += w->H[i][j] * w->x[j];
    return slope;
}

/* Block pivoting: all variables that contradict the active set change sides together. Takes few rounds, but may cycle. */
static int settle(@L@_room *w, signed char *side)
{
    int round, i, wrong;
    for (round = 0; round < BLOCK_ROUNDS; round++) {
        if (!solve(w, side))
            return 0;
        wrong = 0;
        for (i = 0; i < SIZE; i++) {
            int wish = side[i];
            if (side[i] == 0)
                wish = w->x[i] > w->high[i] ? 1 : w->x[i] < w->low[i] ? -1 : 0;
            else if (side[i] * slope_at(w, i) > 0.0)
                wish = 0;
            w->C[i][i] = wish; /* the diagonal of C is free now that x is known */
            wrong += wish != side[i];
        }
        if (wrong == 0)
            return 1;
        for (i = 0; i < SIZE; i++)
            side[i] = (signed char)w->C[i][i];
    }
    return 0;
}

/* Primal active-set method: move towards the minimum until a bound becomes active; at the minimum of a face release the bound with the largest
   multiplier of the wrong sign. The cost decreases in every round, so that no active set repeats. */
static int descend(@L@_room *w, signed char *side)
{
    double least = 0.0; /* slopes below this are rounding */
    int round, i, k;
    for (i = 0; i < SIZE; i++) {
        if (1e-12 * fabs(w->g[i]) > least)
            least = 1e-12 * fabs(w->g[i]);
        w->x[i] = isfinite(w->x[i]) ? clip(w->x[i], w->low[i], w->high[i]) : clip(0.0, w->low[i], w->high[i]);
        side[i] = (signed char)(w->x[i] >= w->high[i] ? 1 : w->x[i] <= w->low[i] ? -1 : 0);
        w->y[i] = w->x[i];
    }
    for (round = 0; round < ROUNDS; round++) {
        double part = 1.0, most = least;
        if (!solve(w, side))
            return 0;
        k = -1;
        for (i = 0; i < SIZE; i++) {
            double d = w->x[i] - w->y[i], room = d > 0.0 ? w->high[i] - w->y[i] : w->low[i] - w->y[i];
            if (!isfinite(d))
                return 0;
            if (side[i] == 0 && d != 0.0 && room / d < part) {
                part = room / d;
                k = i;
            }
        }
        if (k >= 0) {
            int to = w->x[k] > w->y[k] ? 1 : -1;
            for (i = 0; i < SIZE; i++)
                w->y[i] += part * (w->x[i] - w->y[i]);
            w->y[k] = to > 0 ? w->high[k] : w->low[k];
            side[k] = (signed char)to;
            continue;
        }
        for (i = 0; i < SIZE; i++) {
            double gain = side[i] ? side[i] * slope_at(w, i) : 0.0;
            if (gain > most) {
                most = gain;
                k = i;
            }
        }
        if (k < 0)
            return 1;
        for (i = 0; i < SIZE; i++)
            w->y[i] = w->x[i];
        side[k] = 0;
    }
    return 0;
}

/* Minimum of x^T H x / 2 + g^T x within bounds, starting from the active set of the previous sample; returns 0 if not found. */
static int minimize(@L@_room *w, signed char *side)
{
    return settle(w, side) || descend(w, side);
}

static int iterate(@L@_memory *m, @L@_room *w, const double *q_R, const double *v_R, const double *u_R, int *open)
{
    int k, i, j;
    outlook seen;
    linearize(m, w, q_R, v_R);
    weigh(w);
    seen = look_ahead(m, w, u_R);
    remember(m, &seen);
    *open = (seen.gap > CLOSED && seen.far > FAR_TURN) || (HAS_RECOVERY && seen.last > FAR_TURN);
    if (is_dead_end(m, &seen)) {
        m->wait = PATIENCE + SETTLING;
        m->trust = TRUST_HIGH;
        restart(m, q_R, v_R, u_R);
        linearize(m, w, q_R, v_R);
        weigh(w);
    }
    condense(m, w, u_R);
    if (!minimize(w, m->side)) {
        double planned[N][NU];
        memset(m->side, 0, sizeof m->side);
        memcpy(planned, m->u, sizeof planned);
        m->failures++;
        restart(m, q_R, v_R, u_R);
        memcpy(m->u, planned, sizeof planned);
        *open = 0;
        return 1;
    }
    for (k = 0; k < N; k++) {
        double turned = 0.0, part = 1.0, moved[NQ];
        for (i = 0; i < NX; i++) {
            w->dx[i] = w->f[k][i];
            for (j = 0; j < (k + 1) * NU; j++)
                w->dx[i] += w->S[k][i][j] * w->x[j];
            if (is_angle[i])
                turned += w->dx[i] * w->dx[i];
        }
        turned = sqrt(turned);
        if (turned > m->trust)
            part = m->trust / turned;
        for (i = 0; i < NX; i++)
            w->dx[i] *= part;
        @MOVE@(m->q[k + 1], w->dx, moved);
        memcpy(m->q[k + 1], moved, sizeof moved);
        for (i = 0; i < NV; i++)
            m->v[k + 1][i] += w->dx[NE + i];
        for (i = 0; i < NU; i++)
            m->u[k][i] = clip(m->u[k][i] + w->x[k * NU + i], lowest[i], highest[i]);
    }
    return 0;
}

/* Steps of the optimisation; more of them while the motion is open, then the law of recovery. */
static int optimize(@L@_memory *m, @L@_room *w, const double *q_R, const double *v_R, const double *u_R)
{
    int i, failed = 0, open = 0;
    m->since = m->since < LOST * N ? m->since + 1 : m->since;
    for (i = 0; i < @ITERATIONS@; i++)
        failed = iterate(m, w, q_R, v_R, u_R, &open);
    for (i = 0; i < MORE && open; i++)
        failed = iterate(m, w, q_R, v_R, u_R, &open);
#if HAS_RECOVERY
    if (open)
        recover(m, w, q_R, v_R, u_R);
#endif
    return failed;
}

int @L@_sample(@L@_memory *m, @L@_room *w, int moves, const double *q, const double *v, const double *q_R,
               const double *v_R, const double *u_R, double *u)
{
    int i, known = 1, failed = 0;
    for (i = 0; i < NQ; i++)
        known = known && isfinite(q[i]);
    for (i = 0; i < NV; i++)
        known = known && isfinite(v[i]);
    if (!m->begun && known)
        begin(m, q, v, u_R);
    else if (m->begun)
        shift(m, moves < N ? moves : N);
    if (known) {
        memcpy(m->q[0], q, sizeof m->q[0]);
        memcpy(m->v[0], v, sizeof m->v[0]);
#if HAS_RECOVERY
        if (!(m->handed && recover(m, w, q_R, v_R, u_R)))
#endif
            failed = optimize(m, w, q_R, v_R, u_R);
    } else {
        m->failures++;
        failed = 1;
    }
    for (i = 0; i < NU; i++)
        u[i] = m->begun ? m->u[0][i] : clip(u_R[i], lowest[i], highest[i]);
    return failed;
}
