/* @MARK@ */
#ifndef HEAVYTOP_@GUARD@_MPC_H
#define HEAVYTOP_@GUARD@_MPC_H

#ifdef __cplusplus
extern "C" {
#endif

enum { @L@_MOVES = @N@, @L@_NQ = @NQ@, @L@_NV = @NV@, @L@_NU = @NU@, @L@_NX = @NX@ };

/* State of the controller between samples. */
typedef struct {
    double q[@L@_MOVES + 1][@L@_NQ], v[@L@_MOVES + 1][@L@_NV], u[@L@_MOVES][@L@_NU];
    double costs[@PATIENCE@ + 1], trust, bar;
    int cost_count, wait, begun, failures, restarts, recoveries, handed, since;
    signed char side[@L@_MOVES * @L@_NU];
} @L@_memory;

/* Workspace of one sample; its content need not be kept. */
typedef struct {
    double defect[@L@_MOVES][@L@_NX], A[@L@_MOVES][@L@_NX * @L@_NX], B[@L@_MOVES][@L@_NX * @L@_NU];
    double away[@L@_MOVES][@L@_NX], turn[@L@_MOVES][@L@_NX * @L@_NX];
    double f[@L@_MOVES][@L@_NX], S[@L@_MOVES][@L@_NX][@L@_MOVES * @L@_NU];
    double G[@L@_NX][@L@_MOVES * @L@_NU], H[@L@_MOVES * @L@_NU][@L@_MOVES * @L@_NU];
    double C[@L@_MOVES * @L@_NU][@L@_MOVES * @L@_NU];
    double g[@L@_MOVES * @L@_NU], x[@L@_MOVES * @L@_NU], y[@L@_MOVES * @L@_NU], low[@L@_MOVES * @L@_NU], high[@L@_MOVES * @L@_NU];
    double d[@L@_MOVES][@L@_NX], dx[@L@_NX];
} @L@_room;

/* Clear the predicted motion. */
void @L@_reset(@L@_memory *m);

/* One sample: the inputs u for the state (q, v).
   moves: number of moves since the previous sample (0 or 1 typically; ignored after a reset).
   q_R, v_R: the reference at the ends of the next moves; u_R: the inputs it requires in them.
   Returns 0; 1 if there was no solution or the state was not finite: u is the previously planned input. */
int @L@_sample(@L@_memory *m, @L@_room *w, int moves, const double *q, const double *v, const double *q_R,
               const double *v_R, const double *u_R, double *u);

#ifdef __cplusplus
}
#endif

#endif
