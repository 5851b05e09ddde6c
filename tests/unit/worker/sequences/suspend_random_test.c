#include "tests/unit/cmocka.h"
int main(void){return 0;}
