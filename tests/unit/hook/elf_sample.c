/* A library with one of each kind of symbol that elf_test.c asks for. */
int sample_function(void);
int sample_data = 42;
extern _Thread_local int sample_tls;
_Thread_local int sample_tls = 7;
extern int sample_undefined;

int sample_function(void)
{
    return sample_data + sample_tls;
}
