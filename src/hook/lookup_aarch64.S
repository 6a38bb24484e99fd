/* Entries of the interposed loader functions, AAPCS64; see lookup_x86_64.S for why they are assembly.
 * The return address is in x30, which the real function must find unchanged. */

.macro entry name, filter
    .globl \name
    .type \name, %function
    .hidden gs_lookup_own_\name
    .globl gs_lookup_own_\name
    .type gs_lookup_own_\name, %function
    .p2align 4
\name:
gs_lookup_own_\name:
    .cfi_startproc
    hint 34                     /* bti c */
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x3, x30
    bl \filter
    mov x16, x0
    mov x17, x1
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbz x16, 1f
    br x16
1:  mov x0, x17
    ret
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

    .section .note.GNU-stack, "", %progbits
