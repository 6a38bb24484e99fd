/* Build-time tool: prints the manual page or a completion script of gpuslice. */
#include <stdio.h>
#include <string.h>

#include "apps/gpuslice/options.h"
#include "base/buf.h"

int main(int argc, char **argv)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    if (argc == 2 && strcmp(argv[1], "man") == 0)
        gs_opt_man(&gs_options_spec, &buf);
    else if (argc == 2 && strcmp(argv[1], "bash") == 0)
        gs_opt_bash(&gs_options_spec, &buf);
    else if (argc == 2 && strcmp(argv[1], "zsh") == 0)
        gs_opt_zsh(&gs_options_spec, &buf);
    else {
        (void)fprintf(stderr, "usage: docgen man|bash|zsh\n");
        return 2;
    }
    if (gs_buf_check(&buf) != 0 || fputs(gs_buf_text(&buf), stdout) < 0 || fflush(stdout) != 0) {
        perror("docgen");
        return 1;
    }
    return 0;
}
