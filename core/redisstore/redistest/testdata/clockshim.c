/*
 * Moves the wall clock of one program. Preloaded, it adds the microseconds that
 * stand in the file named by REDISTEST_CLOCK, a 64-bit number in the order of
 * the machine, to what the program reads. All other clocks are left alone, the
 * monotonic ones above all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int clock_reader(clockid_t, struct timespec *);

static clock_reader *system_clock;
static const int64_t *offset;

__attribute__((constructor)) static void attach(void) {
	const char *path = getenv("REDISTEST_CLOCK");
	int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	clock_reader *found = (clock_reader *)dlsym(RTLD_NEXT, "clock_gettime");

	if (page == MAP_FAILED || found == NULL) {
		fprintf(stderr, "clockshim: cannot attach to REDISTEST_CLOCK=%s\n", path == NULL ? "" : path);
		_exit(1);
	}
	close(file);
	offset = page;
	system_clock = found;
}

/* Memory allocators read clocks before the constructor runs, and must not be
 * called back by dlsym: until then the kernel is asked. */
static int read_clock(clockid_t id, struct timespec *t) {
	if (system_clock == NULL)
		return (int)syscall(SYS_clock_gettime, id, t);
	return system_clock(id, t);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = read_clock(id, t);

	if (failed || offset == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
		return failed;

	int64_t moved = __atomic_load_n(offset, __ATOMIC_RELAXED);
	int64_t nanoseconds = t->tv_nsec + moved % 1000000 * 1000;
	t->tv_sec += (time_t)(moved / 1000000);
	if (nanoseconds < 0) {
		nanoseconds += 1000000000;
		t->tv_sec--;
	} else if (nanoseconds >= 1000000000) {
		nanoseconds -= 1000000000;
		t->tv_sec++;
	}
	t->tv_nsec = (long)nanoseconds;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now))
		return (time_t)-1;
	if (t != NULL)
		*t = now.tv_sec;
	return now.tv_sec;
}
