/* mixer_list.h - The kinds of mixers, a line each:
 *
 *     MIXER(KIND, row, MEMORY)
 *
 *     KIND    MIXER_KIND of enum mixer_kind; a model's fingerprint has its
 *             number, so lines are only appended
 *     row     mixer_row (common/model/mixer.h) and cpu_mixer_row
 *             (kernels/cpu/mixer.h) describe the kind; they do not link
 *             without
 *     MEMORY  what a layer holds of a sequence, MIXER_IN_MEMORY of enum
 *             mixer_memory
 *
 * Included several times, by whoever defines MIXER. */
MIXER(ATTENTION, attention, BLOCKS) /* sees all positions */
MIXER(DELTANET, deltanet, SLOT)
MIXER(WINDOW, window, WINDOWS) /* sees the last `window` positions */
MIXER(NOPE, nope, BLOCKS)      /* sees all positions, and rotates none */
