// What the test programs share: a check that names its place, and ends the program.

#ifndef CHECK_H
#define CHECK_H

#include <farcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Generous: reached only when something hangs.
#define LONG_NS UINT64_C(30000000000)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK_STATUS(expression, expected)                                                                   \
    do {                                                                                                     \
        farcall_status_t status_ = (expression);                                                             \
        if (status_ != (expected)) {                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expression,                              \
                    farcall_status_text(status_));                                                           \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK_OK(expression) CHECK_STATUS(expression, FARCALL_OK)

// For functions that explain themselves.
#define CHECK_SAID(expression, error)                                                                        \
    do {                                                                                                     \
        if ((expression) != FARCALL_OK) {                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (error).text);                                \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
