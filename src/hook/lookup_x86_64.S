/* Entries of the interposed loader functions, x86-64 System V ABI.
 *
 * dlsym and dlopen look at their return address to know who asks (RTLD_NEXT, RTLD_DEFAULT, RUNPATH), so
 * the real one must be entered by a jump, with the caller's return address on the stack and all
 * arguments as they were. The filter (lookup.c) gets the arguments and the return address; it answers
 * with a place to jump to, or with 0 and the value to return. */

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

.macro entry name, filter
    .globl \name
    .type \name, @function
    .hidden gs_lookup_own_\name
    .globl gs_lookup_own_\name
    .type gs_lookup_own_\name, @function
    .p2align 4
\name:
gs_lookup_own_\name:
    .cfi_startproc
    _CET_ENDBR
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    mov 24(%rsp), %rcx
    call \filter
    mov %rax, %r11
    mov %rdx, %rax
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size \name, . - \name
    .size gs_lookup_own_\name, . - gs_lookup_own_\name
.endm

    .text
    .hidden gs_lookup_filter_dlsym
    .hidden gs_lookup_filter_dlvsym
    .hidden gs_lookup_filter_dlopen
    .hidden gs_lookup_filter_dlmopen
    entry dlsym, gs_lookup_filter_dlsym
    entry dlvsym, gs_lookup_filter_dlvsym
    entry dlopen, gs_lookup_filter_dlopen
    entry dlmopen, gs_lookup_filter_dlmopen

    .section .note.GNU-stack, "", @progbits
