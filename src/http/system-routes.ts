import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Express } from 'express';
import type { Metrics } from '../observe/metrics.ts';
import { openApiDocument } from './openapi.ts';
import type { Route } from './route.ts';

export interface SystemDeps {
  metrics: Metrics;
  version: string;
  /** Whether the service can work now; the names tell what was looked at. */
  ready: () => Promise<Record<string, boolean>>;
}

/** The paths that need no key: for probes, for Prometheus, and for readers of the API. */
export const systemPaths = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs'] as const;

/** Only these leave the package's folder. */
const docsAssets = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'] as const;

export function addSystemRoutes(app: Express, routes: readonly Route[], deps: SystemDeps): void {
  const { registry } = deps.metrics;
  app.get('/healthz', (_, response) => void response.json({ status: 'alive' }));
  app.get('/readyz', async (_, response) => {
    const { ok, checks } = await readiness(deps);
    response.status(ok ? 200 : 503).json({ status: ok ? 'ready' : 'not ready', checks });
  });
  app.get('/metrics', async (_, response) => {
    response.set('content-type', registry.contentType).send(await deps.metrics.text());
  });
  const document = JSON.stringify(openApiDocument(routes, deps.version));
  app.get('/openapi.json', (_, response) => void response.type('application/json').send(document));
  addDocs(app);
}

/** A check that fails to answer is a service that is not ready, not an error of the probe. */
async function readiness({ ready }: SystemDeps): Promise<{ ok: boolean; checks: Record<string, boolean> }> {
  try {
    const checks = await ready();
    return { ok: Object.values(checks).every(Boolean), checks };
  } catch {
    return { ok: false, checks: {} };
  }
}

/** Everything comes from this server's own disk, so that the page works without a network and under a strict CSP. */
function addDocs(app: Express): void {
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  app.get('/docs', (_, response) => void response.type('html').send(docsPage));
  app.get('/docs/start.js', (_, response) => void response.type('js').send(docsScript));
  for (const asset of docsAssets) {
    app.get(`/docs/${asset}`, (_, response) => {
      response.sendFile(join(folder, asset), { maxAge: '1h', dotfiles: 'allow' });
    });
  }
}

const docsPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Luckyledger API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="api"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
`;
const docsScript = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#api', deepLinking: true });\n`;
