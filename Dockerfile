# The service, compiled, without its development tools, as a user without rights.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY src src
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY db db
USER node
ENV HOST=0.0.0.0 PORT=8080
EXPOSE 8080
# Node itself, not npm: it gets the signals, and ends with its work done.
CMD ["node", "dist/main.js", "serve"]
