/* A library that offers a function of another one to the program that loads it. */
extern int pass_message(const char *certificate, const char *key);
extern int (*offered)(const char *certificate, const char *key);

__attribute__((constructor)) static void offer(void)
{
	offered = pass_message;
}
