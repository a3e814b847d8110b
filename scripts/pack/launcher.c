/* Starts the interpreter that lies beside this program, under the packed loader and libraries: a node may have another
 * libc, or one that is older than ours, and need not have a shell. Linked statically, so that it needs none of them.
 *
 * Which of the two programs is meant is the name of the file, behind every link. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LOADER
#error "LOADER and PYTHON come from the build"
#endif

#define START                                                                                                        \
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv.pop(1).split(':'); from meshnet.%s import run; run()"

static char root[PATH_MAX];

static char *inside(const char *name)
{
    size_t size = strlen(root) + strlen(name) + 2;
    char *path = malloc(size);
    if (path == NULL)
        _exit(127);
    snprintf(path, size, "%s/%s", root, name);
    return path;
}

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", root, sizeof root - 1);
    if (length <= 0) {
        fputs("meshnet: /proc is not mounted: where is this program?\n", stderr);
        return 127;
    }
    root[length] = '\0';
    char *slash = strrchr(root, '/');
    const char *module = strcmp(slash + 1, "meshnet-init") == 0 ? "cli.init" : "cni.entry";
    *slash = '\0';

    char *python = inside("bin/" PYTHON), *library = inside("lib");
    char *start = malloc(sizeof START + 32), *path = malloc(3 * PATH_MAX);
    const char **words = malloc((size_t)(argc + 12) * sizeof *words);
    if (start == NULL || path == NULL || words == NULL)
        return 127;
    snprintf(start, sizeof START + 32, START, module);
    snprintf(path, 3 * PATH_MAX, "%s/" PYTHON ":%s/" PYTHON "/lib-dynload", library, library);

    int count = 0;
    words[count++] = LOADER;
    words[count++] = "--library-path";
    words[count++] = library;
    words[count++] = "--argv0";
    words[count++] = python; /* by this name the interpreter finds its own files */
    words[count++] = python;
    words[count++] = "-I";
    words[count++] = "-S";
    words[count++] = "-c";
    words[count++] = start;
    words[count++] = path;
    for (int place = 1; place < argc; place++)
        words[count++] = argv[place];
    words[count] = NULL;
    execv(inside("lib/" LOADER), (char *const *)words);
    perror("meshnet: the packed interpreter can't be started");
    return 127;
}
