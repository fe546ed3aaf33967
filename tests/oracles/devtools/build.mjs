// Bundles import.ts with the parts of Chromium's DevTools that it needs.

import {build} from 'esbuild';

// The one file of these parts that is generated when DevTools are built, and not published.
const locales = {
  name: 'locales',
  setup(bundle) {
    bundle.onResolve({filter: /\/locales\.js$/}, ({path}) => ({path, namespace: 'locales'}));
    bundle.onLoad({filter: /.*/, namespace: 'locales'}, () => ({
      contents: `
        export const LOCALES = ['en-US'], BUNDLED_LOCALES = ['en-US'], DEFAULT_LOCALE = 'en-US';
        export const REMOTE_FETCH_PATTERN = '', LOCAL_FETCH_PATTERN = '';`,
    }));
  },
};

await build({
  entryPoints: ['import.ts'],
  outfile: 'import.mjs',
  bundle: true,
  format: 'esm',
  platform: 'node',
  plugins: [locales],
  logLevel: 'error',
});
