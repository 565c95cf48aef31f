/* SPDX-License-Identifier: Apache-2.0
   Ends the process when a test does not get further, and says which test it is. For programs in C too. */
#ifndef SLUICE_TESTS_SUPPORT_HANG_WATCH_H
#define SLUICE_TESTS_SUPPORT_HANG_WATCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the test of this name runs, or the one that runs has got further. If nothing calls this or
   sluice_end_watch() for a minute (with a sanitizer five), the process prints the name and aborts. The environment
   variable SLUICE_TEST_SECONDS has another time; 0 is none, e.g. for a debugger. */
void sluice_watch_test(const char* name);
/* No test runs. */
void sluice_end_watch(void);

#ifdef __cplusplus
}
#endif

#endif
