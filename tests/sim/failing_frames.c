/* frame_spare.c without spare frames: each frame is an allocation that can
 * fail. */
#include <stdlib.h>

void *failing_malloc(size_t bytes);
void failing_free(void *p);

#define FRAME_SPARE_KEEPS false
#define malloc(bytes)     failing_malloc(bytes)
#define free(p)           failing_free(p)

#include "common/wire/frame_spare.c"
